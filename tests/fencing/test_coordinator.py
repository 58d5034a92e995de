"""Questions to a group whose coordinator moves."""

import pytest

from ringfence.fencing.kafka import coordinator
from ringfence.fencing.kafka.coordinator import NoCoordinator, await_coordinator


def test_a_question_is_asked_again_until_the_group_has_a_coordinator() -> None:
    answers = [None, None, "Stable"]

    @await_coordinator
    def ask() -> str:
        if (found := answers.pop(0)) is None:
            raise NoCoordinator("This is not the correct coordinator")
        return found

    assert ask() == "Stable"
    assert not answers


def test_its_error_is_told_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_SECONDS", 0.1)

    @await_coordinator
    def ask() -> str:
        raise NoCoordinator("This is not the correct coordinator")

    with pytest.raises(NoCoordinator):
        ask()
