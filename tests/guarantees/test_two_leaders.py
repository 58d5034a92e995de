"""Only the current leader can write the config topic (invariant 3): by epoch, and by group generation."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Conflict, Fenced, NotLeader, Retriable
from ringfence.fencing.ids import ConnectorName, leader_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.membership import GroupMembership, GroupMetadata
from ringfence.fencing.kafka.open_transactions import HangingProber
from ringfence.fencing.kafka.plain_producers import PlainProducer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.leader.term import Term
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import ConfigLog
from ringfence.fencing.topics.config_records import TargetStateRecord, decode, encode
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.kafka import EmbeddedKafka
from tests.support.hanging import append
from tests.support.waiting import eventually

NAME = ConnectorName("c")


def wish(state: TargetState) -> TargetStateRecord:
    return TargetStateRecord(NAME, state)


class Candidate:
    """A seat in the group, and what the rebalance callbacks said."""

    def __init__(self, connection: Connection, group: str, topic: str, name: str) -> None:
        self.captured: list[GroupMetadata] = []
        self.lost = 0
        self.seat = GroupMembership(
            connection,
            group,
            topic,
            f"{name}@1",
            self.captured.append,
            self._lose,
            session_timeout_ms=15_000,
            max_poll_interval_ms=300_000,
        )

    def _lose(self) -> None:
        self.lost += 1

    def polled(self) -> list[GroupMetadata]:
        """What was captured, after one more poll."""
        self.seat.poll(0.05)
        return self.captured


def rebalanced(first: Candidate, second: Candidate, before: int) -> bool:
    """Whether the second member has come, and the first is the owner under a newer generation."""
    second.polled()
    return first.polled()[-1].generation > before


@pytest.fixture
def topic(connection: Connection, unique: Callable[[str], str]) -> str:
    name = unique("configs")
    create_topics(connection, [TopicSpec(name)], Deadline.after(20))
    return name


@pytest.fixture
def first(connection: Connection, topic: str) -> Iterator[Candidate]:
    candidate = Candidate(connection, f"{topic}-group", topic, "first")
    eventually(lambda: bool(candidate.polled()), 30, "the first member owns the topic")
    yield candidate
    candidate.seat.close()


def term_of(connection: Connection, topic: str, metadata: GroupMetadata, owns: Callable[[], bool]) -> Term:
    return Term(connection, f"{topic}-group", topic, metadata, owns)


def written(connection: Connection, topic: str) -> list[object]:
    log = TopicLog(connection, topic)
    try:
        return [decode(record.key, record.value) for record in log.read_to_end(Deadline.after(20))]
    finally:
        log.close()


def test_the_older_leader_is_refused_by_epoch(connection: Connection, topic: str, first: Candidate) -> None:
    older = term_of(connection, topic, first.captured[-1], lambda: True)
    older.claim(Deadline.after(20))
    older.write(lambda _: [wish(TargetState.PAUSED)], Deadline.after(20))

    # The newer one takes the transactional id; the group generation, and so the metadata, is still the same.
    newer = Producer(connection, leader_transactional_id(f"{topic}-group"))
    newer.init(Deadline.after(20))

    producer = older._producer
    assert producer is not None
    producer.begin()
    producer.produce(topic, b"{}", b"connector-late", 0)
    with pytest.raises(Fenced):
        producer.commit(Deadline.after(20))
    newer.close()
    older.close()
    assert written(connection, topic) == [wish(TargetState.PAUSED)]


def test_the_older_leader_is_refused_by_group_generation_though_its_epoch_is_the_newest(
    connection: Connection, topic: str, first: Candidate
) -> None:
    term = term_of(connection, topic, first.captured[-1], lambda: True)
    term.claim(Deadline.after(20))
    term.write(lambda _: [wish(TargetState.PAUSED)], Deadline.after(20))

    second = Candidate(connection, f"{topic}-group", topic, "second")
    before = first.captured[-1].generation
    eventually(
        lambda: rebalanced(first, second, before),
        30,
        "a rebalance leaves the first member the owner, under a newer generation",
    )
    # The old metadata, with the newest epoch: `write` claims the transactional id again before it gives up.
    with pytest.raises(NotLeader, match="ILLEGAL_GENERATION"):
        term.write(lambda _: [wish(TargetState.STOPPED)], Deadline.after(20))
    assert not term.in_doubt  # so that the command may be sent again
    with HangingProber(connection) as prober:
        eventually(lambda: prober.open_on([topic]) == [], 10, "nobody waits for what the older leader has begun")
    assert written(connection, topic) == [wish(TargetState.PAUSED)]

    recaptured = term_of(connection, topic, first.captured[-1], lambda: True)
    recaptured.claim(Deadline.after(20))
    recaptured.write(lambda _: [wish(TargetState.RUNNING)], Deadline.after(20))
    assert written(connection, topic) == [wish(TargetState.PAUSED), wish(TargetState.RUNNING)]
    term.close()
    recaptured.close()
    second.seat.close()


def test_a_member_that_owns_nothing_is_given_no_metadata_and_a_stranger_has_none(
    connection: Connection, topic: str, first: Candidate
) -> None:
    second = Candidate(connection, f"{topic}-group", topic, "second")
    before = first.captured[-1].generation
    eventually(
        lambda: rebalanced(first, second, before),
        30,
        "both are members",
    )
    assert second.captured == []
    assert not second.seat.owns
    second.seat.close()
    never_joined = b"CGMDv2:" + (-1).to_bytes(4, "little", signed=True) + b"group\0\0\0"
    with pytest.raises(NotLeader, match="not a member"):
        GroupMetadata.of(never_joined)


def test_a_leader_that_no_longer_owns_the_partition_writes_nothing(
    connection: Connection, topic: str, first: Candidate
) -> None:
    owns = [True]
    term = term_of(connection, topic, first.captured[-1], lambda: owns[0])
    term.claim(Deadline.after(20))
    owns[0] = False
    with pytest.raises(NotLeader):
        term.write(lambda _: [wish(TargetState.PAUSED)], Deadline.after(20))
    owns[0] = True
    with pytest.raises(NotLeader):  # for ever after
        term.write(lambda _: [wish(TargetState.PAUSED)], Deadline.after(20))
    term.close()
    assert written(connection, topic) == []


def test_a_leader_fenced_by_mistake_claims_again_and_writes_once(
    connection: Connection, topic: str, first: Candidate
) -> None:
    term = term_of(connection, topic, first.captured[-1], lambda: True)
    term.claim(Deadline.after(20))
    stranger = Producer(connection, leader_transactional_id(f"{topic}-group"))
    stranger.init(Deadline.after(20))
    state, offset = term.write(lambda _: [wish(TargetState.PAUSED)], Deadline.after(30))
    assert state.connector(NAME).target is TargetState.PAUSED
    assert offset == state.end - 1
    stranger.close()
    term.close()
    assert written(connection, topic) == [wish(TargetState.PAUSED)]


@pytest.mark.parametrize("committed", [True, False])
def test_an_unknown_outcome_is_resolved_and_never_written_twice(
    connection: Connection, topic: str, first: Candidate, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    term = term_of(connection, topic, first.captured[-1], lambda: True)
    term.claim(Deadline.after(20))
    real = Producer.commit
    calls = []

    def doubtful(self: Producer, deadline: Deadline) -> None:
        calls.append(1)
        if len(calls) == 1:
            if committed:
                real(self, deadline)
            self._gave_up = True
            raise Retriable("the answer got lost", "_TIMED_OUT")
        real(self, deadline)

    monkeypatch.setattr(Producer, "commit", doubtful)
    state, _ = term.write(lambda _: [wish(TargetState.PAUSED)], Deadline.after(30))
    assert state.connector(NAME).target is TargetState.PAUSED
    term.close()
    assert written(connection, topic) == [wish(TargetState.PAUSED)]


def test_a_leader_that_lost_its_seat_in_the_middle_of_a_commit_says_that_it_does_not_know(
    connection: Connection, topic: str, first: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    owns = [True]
    term = term_of(connection, topic, first.captured[-1], lambda: owns[0])
    term.claim(Deadline.after(20))
    real = Producer.commit

    def lost(self: Producer, deadline: Deadline) -> None:
        real(self, deadline)
        self._gave_up, owns[0] = True, False
        raise Retriable("the answer got lost", "_TIMED_OUT")

    monkeypatch.setattr(Producer, "commit", lost)
    with pytest.raises(NotLeader):
        term.write(lambda _: [wish(TargetState.PAUSED)], Deadline.after(30))
    assert term.in_doubt  # it was written: a command that is sent again would be carried out twice
    term.close()
    assert written(connection, topic) == [wish(TargetState.PAUSED)]


@pytest.fixture
def term(connection: Connection, topic: str, first: Candidate) -> Iterator[Term]:
    leading = term_of(connection, topic, first.captured[-1], lambda: True)
    leading.claim(Deadline.after(20))
    yield leading
    leading.close()


def write_as_stranger(connection: Connection, topic: str, *records: TargetStateRecord) -> None:
    """As a tool does that knows nothing of leaders."""
    pen = PlainProducer(connection, lambda _: 0)
    try:
        pen.write(topic, [encode(record) for record in records], Deadline.after(20))
    finally:
        pen.close()


def write(term: Term, records: list[TargetStateRecord]) -> tuple[ClusterState, int]:
    return term.write(lambda _: records, Deadline.after(20))


def other(number: int) -> TargetStateRecord:
    return TargetStateRecord(ConnectorName(f"other-{number}"), TargetState.PAUSED)


def state_in(connection: Connection, topic: str) -> ClusterState:
    log = ConfigLog(connection, topic)
    try:
        return log.refresh(Deadline.after(20))
    finally:
        log.close()


def test_a_leader_that_writes_alone_reads_nothing_and_knows_the_whole_topic(
    connection: Connection, topic: str, term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    real = TopicLog.request_ends

    def counted(self: TopicLog, deadline: Deadline) -> dict[int, int]:
        reads.append(self.topic)
        return real(self, deadline)

    with monkeypatch.context() as patch:
        patch.setattr(TopicLog, "request_ends", counted)
        for number in range(5):
            records = [other(number), wish(TargetState.PAUSED)]
            state, offset = write(term, records)
            assert offset == state.end - 1
    assert reads == []
    eventually(lambda: state_in(connection, topic) == term.state, 10, "a reader folds the same state")
    assert term.refresh(Deadline.after(20)) == state_in(connection, topic)


def test_a_write_behind_a_strangers_record_is_decided_again_and_written_once(
    connection: Connection, topic: str, term: Term
) -> None:
    term.write(lambda _: [wish(TargetState.PAUSED)], Deadline.after(20))
    write_as_stranger(connection, topic, other(1))
    seen: list[bool] = []

    def decide(state: ClusterState) -> list[TargetStateRecord]:
        seen.append(ConnectorName("other-1") in state.connectors)
        return [wish(TargetState.STOPPED)]

    state, _ = term.write(decide, Deadline.after(20))
    assert seen == [False, True]
    assert state.connector(ConnectorName("other-1")).target is TargetState.PAUSED
    assert written(connection, topic) == [wish(TargetState.PAUSED), other(1), wish(TargetState.STOPPED)]
    term.write(lambda _: [wish(TargetState.RUNNING)], Deadline.after(20))
    assert state_in(connection, topic) == term.state


def test_a_strangers_record_between_a_write_and_its_commit_is_not_missed(
    connection: Connection, topic: str, term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Producer.commit

    def late(self: Producer, deadline: Deadline) -> None:
        write_as_stranger(connection, topic, other(1))
        real(self, deadline)

    with monkeypatch.context() as patch:
        patch.setattr(Producer, "commit", late)
        term.write(lambda _: [wish(TargetState.PAUSED)], Deadline.after(20))
    state, _ = term.write(lambda _: [wish(TargetState.STOPPED)], Deadline.after(20))
    assert state.connector(ConnectorName("other-1")).target is TargetState.PAUSED
    assert state == state_in(connection, topic)


def test_what_one_read_has_not_seen_the_next_one_has(connection: Connection, topic: str, term: Term) -> None:
    """As when the marker of the commit is written late, and a stranger's record stands in its place."""
    term.write(lambda _: [wish(TargetState.PAUSED)], Deadline.after(20))
    publisher = term._log.publisher
    assert publisher.version.next_offset is not None
    publisher.version = replace(publisher.version, next_offset=publisher.version.next_offset + 1)
    write_as_stranger(connection, topic, other(1))
    assert ConnectorName("other-1") not in term.refresh(Deadline.after(20)).connectors
    write_as_stranger(connection, topic, other(2))
    assert {"other-1", "other-2"} <= term.refresh(Deadline.after(20)).connectors.keys()


@pytest.mark.parametrize("refuses", [True, False])
def test_what_would_write_nothing_is_decided_at_the_end_of_the_topic(
    connection: Connection, topic: str, term: Term, refuses: bool
) -> None:
    """So a leader that was replaced, and does not know it, refuses nothing for a reason that is over."""
    write_as_stranger(connection, topic, other(1))

    def decide(state: ClusterState) -> list[TargetStateRecord]:
        if ConnectorName("other-1") in state.connectors:
            return [wish(TargetState.PAUSED)]
        if refuses:
            raise Conflict("there is no such connector")
        return []

    state, offset = term.write(decide, Deadline.after(20))
    assert state.connector(NAME).target is TargetState.PAUSED
    assert offset == state.end - 1


def test_a_leader_that_was_replaced_writes_nothing_by_what_it_remembers(
    connection: Connection, topic: str, first: Candidate, term: Term
) -> None:
    term.write(lambda _: [wish(TargetState.PAUSED)], Deadline.after(20))
    newer = term_of(connection, topic, first.captured[-1], lambda: True)
    newer.claim(Deadline.after(20))
    newer.write(lambda _: [other(1)], Deadline.after(20))

    def decide(state: ClusterState) -> list[TargetStateRecord]:
        assert ConnectorName("other-1") not in state.connectors
        term._owns = lambda: False  # it hears of it too late to refuse the write itself
        return [wish(TargetState.STOPPED)]

    with pytest.raises(NotLeader):
        term.write(decide, Deadline.after(20))
    newer.close()
    assert written(connection, topic) == [wish(TargetState.PAUSED), other(1)]


def test_what_hangs_of_an_older_leader_neither_becomes_visible_nor_stops_its_successor(
    trusting: EmbeddedKafka, unique: Callable[[str], str]
) -> None:
    """A write that comes late, behind the end of its transaction: the next commit's marker would make it visible."""
    connection, topic = Connection(trusting.bootstrap), unique("configs")
    create_topics(connection, [TopicSpec(topic)], Deadline.after(20))
    candidate = Candidate(connection, f"{topic}-group", topic, "first")
    eventually(lambda: bool(candidate.polled()), 90, "the member owns the topic")
    older = Producer(connection, leader_transactional_id(f"{topic}-group"))
    older.init(Deadline.after(20))
    key, value = encode(wish(TargetState.STOPPED))
    assert value is not None
    append(
        connection.bootstrap,
        topic,
        older.producer_id,
        older.epoch,
        int(time.time() * 1000),
        leader_transactional_id(f"{topic}-group"),
        key=key,
        value=value,
    )
    older.close()
    term = term_of(connection, topic, candidate.captured[-1], lambda: True)
    term.claim(Deadline.after(20))
    term.write(lambda _: [wish(TargetState.PAUSED)], Deadline.after(20))
    term.close()
    candidate.seat.close()
    assert written(connection, topic) == [wish(TargetState.PAUSED)]
    with HangingProber(connection) as prober:
        assert prober.open_on([topic]) == []
