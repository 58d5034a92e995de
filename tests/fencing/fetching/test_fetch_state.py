"""Who is asked for a partition, and what becomes of it after each kind of answer."""

import pytest

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.api.fetching import OutOfRange
from ringfence.fencing.fetching.fetched_batches import Fetched, FetchedPartition, Position
from ringfence.fencing.fetching.fetcher import FetchState
from ringfence.fencing.fetching.partition_reader import make_error, take_committed
from ringfence.fencing.transactions.messages import MetadataResponse, TopicMetadata
from ringfence.fencing.transactions.record_batches import encode
from tests.support.fetched import stored

NOW = 1_700_000_000_000
PLACE = "t", 1
ID, OTHER_ID = b"i" * 16, b"o" * 16


def told(leader: int = 2, epoch: int = 5, topic_id: bytes = ID, error: int = 0) -> MetadataResponse:
    topic = TopicMetadata(error, topic_id, [1, leader], [9, epoch])
    return MetadataResponse(0, {1: ("one", 1), 2: ("two", 2)}, {"t": topic})


@pytest.fixture
def state() -> FetchState[Fetched]:
    made = FetchState(take_committed(2**31), make_error)
    made.add({PLACE: 100})
    assert made.stale == {"t"}
    assert made.by_node(0.0) == {}
    made.take_metadata(told(), 0.0)
    assert made.stale == set()
    return made


def take(state: FetchState[Fetched], answer: FetchedPartition, node: int = 2, now: float = 0.0) -> list[int]:
    """The first offsets of what is returned."""
    return [batch.first for batch in state.take(PLACE, state.revisions([PLACE])[PLACE], answer, node, now)]


def records(first: int, epoch: int = 4) -> bytes:
    return stored(encode([b"%d" % number for number in range(60)], NOW), first, leader_epoch=epoch)


def test_the_next_position_is_behind_all_batches_and_knows_the_epochs(state: FetchState[Fetched]) -> None:
    assert state.by_node(0.0) == {2: {PLACE: Position(100, 5, -1)}}
    assert take(state, FetchedPartition(0, records=records(100) + records(160, 5) + records(220)[:50])) == [100, 160]
    assert state.by_node(0.0) == {2: {PLACE: Position(220, 5, 5)}}
    assert state.positions == {PLACE: 220}


def test_batches_that_are_left_out_move_the_position(state: FetchState[Fetched]) -> None:
    aborted = stored(encode([b"x"], NOW), 100, 7, attributes=0x10)
    assert take(state, FetchedPartition(0, [(7, 100)], records=aborted)) == []
    assert state.positions == {PLACE: 101}


def test_an_answer_to_an_older_position_is_ignored(state: FetchState[Fetched]) -> None:
    revision = state.revisions([PLACE])[PLACE]
    state.add({PLACE: 40})
    assert state.take(PLACE, revision, FetchedPartition(0, records=records(100)), 2, 0.0) == []
    state.remove([PLACE])
    assert state.take(PLACE, revision, FetchedPartition(0, records=records(100)), 2, 0.0) == []


@pytest.mark.parametrize("code", [3, 5, 6, 9, 56, 74, 75, 78, 100, 103])
def test_leaders_that_have_moved_are_looked_up(state: FetchState[Fetched], code: int) -> None:
    assert take(state, FetchedPartition(code)) == []
    assert state.stale == {"t"}
    state.take_metadata(told(-1), 0.0)
    assert state.stale == {"t"}, "there is no leader yet"
    assert state.by_node(0.0) == {}
    state.take_metadata(told(1, 6), 0.0)
    assert state.by_node(0.0) == {1: {PLACE: Position(100, 6, -1)}}


def test_a_broker_that_is_not_reached_is_asked_for_its_partitions_leaders(state: FetchState[Fetched]) -> None:
    state.lose(1)
    assert state.stale == set()
    state.lose(2)
    assert state.stale == {"t"}


def test_another_replica_is_read_as_the_leader_says(state: FetchState[Fetched]) -> None:
    assert take(state, FetchedPartition(0, preferred=1), now=10.0) == []
    assert list(state.by_node(10.0)) == [1]
    assert list(state.by_node(1000.0)) == [2], "the leader is asked again"
    assert take(state, FetchedPartition(1), node=1, now=11.0) == []
    assert list(state.by_node(11.0)) == [2], "only the leader knows the range for certain"
    with pytest.raises(OutOfRange) as lost:
        take(state, FetchedPartition(1))
    assert (lost.value.place, lost.value.position) == (PLACE, 100)
    assert state.positions == {}


def test_a_truncated_log_ends_the_task(state: FetchState[Fetched]) -> None:
    with pytest.raises(ConnectorError, match="truncated before offset 100"):
        take(state, FetchedPartition(0, diverges=True))


def test_a_topic_that_was_created_again_ends_the_task(state: FetchState[Fetched]) -> None:
    take(state, FetchedPartition(100))
    with pytest.raises(ConnectorError, match="created again") as info:
        state.take_metadata(told(topic_id=OTHER_ID), 0.0)
    assert not isinstance(info.value, RetriableError)


def test_a_topic_may_be_unknown_for_a_moment(state: FetchState[Fetched]) -> None:
    take(state, FetchedPartition(3))
    state.take_metadata(told(error=3), 10.0)
    state.take_metadata(told(error=3), 14.0)
    with pytest.raises(RetriableError, match="does not exist yet"):
        state.take_metadata(told(error=3), 15.1)
    state.take_metadata(told(error=3), 16.0)


def test_a_missing_permission_ends_the_task(state: FetchState[Fetched]) -> None:
    state.lose(2)
    with pytest.raises(ConnectorError, match="READ and DESCRIBE") as in_metadata:
        state.take_metadata(told(error=29), 0.0)
    with pytest.raises(ConnectorError, match="READ and DESCRIBE") as in_answer:
        take(state, FetchedPartition(29))
    assert not isinstance(in_metadata.value, RetriableError)
    assert not isinstance(in_answer.value, RetriableError)


def test_an_error_without_a_rule_is_told_and_reading_goes_on(state: FetchState[Fetched]) -> None:
    with pytest.raises(RetriableError, match="CORRUPT_MESSAGE in partition 1"):
        take(state, FetchedPartition(2))
    assert take(state, FetchedPartition(0, records=records(100))) == [100]


def test_bytes_that_are_no_batches_end_the_task(state: FetchState[Fetched]) -> None:
    with pytest.raises(ConnectorError, match="damaged"):
        take(state, FetchedPartition(0, records=b"\0" * 12 + b"\0\0\0\0\2" + bytes(60)))
