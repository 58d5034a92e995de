"""One answer for all who ask at the same time, never one that was begun before they asked."""

import threading
from collections.abc import Sequence

import pytest

from ringfence.fencing.task.joint_reads import Gathering
from tests.support.waiting import eventually


class Answers:
    """Answers with the question and the number of the group, each group once `go` lets it."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.go = threading.Semaphore(0)
        self.trouble: Exception | None = None

    def __call__(self, questions: Sequence[str]) -> list[str]:
        self.groups.append(sorted(questions))
        number = len(self.groups)
        assert self.go.acquire(timeout=60)
        trouble, self.trouble = self.trouble, None
        if trouble is not None:
            raise trouble
        return [f"{question}{number}" for question in questions]


class Asker:
    def __init__(self, gathering: Gathering[str, str], question: str) -> None:
        self.answer = ""
        self.error: Exception | None = None
        self._gathering, self._question = gathering, question
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.answer = self._gathering.ask(self._question)
        except ValueError as error:
            self.error = error


def begin(answers: Answers, gathering: Gathering[str, str]) -> list[Asker]:
    """One asks, and then two others while it is answered."""
    first = Asker(gathering, "a")
    eventually(lambda: answers.groups == [["a"]], 20, "the first group")
    others = [Asker(gathering, question) for question in "bc"]
    eventually(lambda: len(gathering._waiting) == 2, 20, "that both wait")
    return [first, *others]


def test_who_asks_during_an_answer_gets_the_next_one_with_all_others() -> None:
    answers = Answers()
    askers = begin(answers, Gathering(answers))
    answers.go.release(2)
    for asker in askers:
        asker.thread.join(60)
    assert answers.groups == [["a"], ["b", "c"]]
    assert [asker.answer for asker in askers] == ["a1", "b2", "c2"]


def test_an_error_is_that_of_one_and_the_others_ask_again() -> None:
    answers = Answers()
    askers = begin(answers, Gathering(answers))
    answers.go.release()
    eventually(lambda: len(answers.groups) == 2, 20, "the second group")
    answers.trouble = ValueError("no broker answers")
    answers.go.release(2)
    for asker in askers:
        asker.thread.join(60)
    assert sorted(map(str, filter(None, (asker.error for asker in askers)))) == ["no broker answers"]
    assert len(answers.groups[2]) == 1, "the one that has not got the error"
    assert sum(asker.answer.endswith("3") for asker in askers) == 1


def test_an_answer_for_each_question_is_required() -> None:
    gathering: Gathering[str, str] = Gathering(lambda _questions: [])
    with pytest.raises(ValueError, match="zip"):
        gathering.ask("a")
