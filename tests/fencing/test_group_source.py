"""The rules of a task that reads a consumer group, without a broker."""

from collections.abc import Callable, Sequence

import pytest

from ringfence.connectors.api import ConnectorError
from ringfence.fencing.errors import Abortable, Fenced
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.membership import GroupMetadata, InputRecord
from ringfence.fencing.task.group_source import GroupSource, position_of


class FakeGroup:
    """A member whose rebalances the test makes."""

    def __init__(self, *given: object, **more: object) -> None:
        self.revoked, self.lost = given[4], given[5]
        self.metadata: GroupMetadata | None = GroupMetadata(b"CGMDv2:", 3)
        self.happens: Callable[[], None] = lambda: None

    def poll(self, seconds: float, limit: int) -> Sequence[InputRecord]:
        self.happens()
        return []

    def close(self) -> None:
        self.revoked()  # type: ignore[operator]


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> GroupSource:
    monkeypatch.setattr("ringfence.fencing.task.group_source.InputGroupMember", FakeGroup)
    return GroupSource(Connection("b:1"), "id", "g", ["t"], 10_000, lambda topic, partition: None)


def inside(source: GroupSource) -> FakeGroup:
    group = source._input
    assert isinstance(group, FakeGroup)
    return group


def test_a_revocation_finishes_what_is_open(source: GroupSource) -> None:
    done: list[str] = []
    source.finish = lambda: done.append("committed")
    inside(source).happens = inside(source).revoked  # type: ignore[assignment]
    source.poll(0, 1)
    assert done == ["committed"]


def test_what_goes_wrong_in_a_revocation_comes_out_of_the_poll_once(source: GroupSource) -> None:
    def fail() -> None:
        raise Fenced("the generation is over", "ILLEGAL_GENERATION")

    source.finish = fail
    inside(source).happens = inside(source).revoked  # type: ignore[assignment]
    with pytest.raises(Fenced):
        source.poll(0, 1)
    inside(source).happens = lambda: None
    assert source.poll(0, 1) == []


def test_after_a_loss_nothing_is_committed(source: GroupSource) -> None:
    source.finish = lambda: pytest.fail("the partitions are somebody else's")
    inside(source).happens = inside(source).lost  # type: ignore[assignment]
    with pytest.raises(Abortable):
        source.poll(0, 1)


def test_who_owns_nothing_commits_nothing(source: GroupSource) -> None:
    gathered = [({"cluster": "c", "topic": "t", "partition": 2}, {"offset": 41})]
    assert source.offsets_for(gathered) == ([("t", 2, 42)], b"CGMDv2:")
    inside(source).metadata = None
    with pytest.raises(Abortable):
        source.offsets_for(gathered)


def test_at_the_end_nothing_is_committed_any_more(source: GroupSource) -> None:
    source.finish = lambda: pytest.fail("finished before")
    source.close()


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        ({"topic": "t"}, {"offset": 1}),
        ({"topic": "t", "partition": 1}, None),
        ({"topic": "t", "partition": 1}, {"x": 1}),
    ],
)
def test_offsets_of_another_kind_are_refused(partition: dict[str, object], offset: dict[str, object] | None) -> None:
    with pytest.raises(ConnectorError, match="`topic` and `partition`"):
        position_of(partition, offset)
