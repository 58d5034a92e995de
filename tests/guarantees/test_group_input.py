"""From topic A to topic B within a group's generations (KIP-447): exact while partitions move and zombies try."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import Producer as PlainProducer

from ringfence.fencing.clock import SYSTEM_CLOCK, Deadline
from ringfence.fencing.errors import Fenced
from ringfence.fencing.kafka import membership
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer_groups import GroupMember, group_members
from ringfence.fencing.kafka.membership import InputGroupMember, InputRecord
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer
from tests.support.broker import Broker
from tests.support.group_copier import OLD_GENERATION, GroupCopier, OffsetsProducer
from tests.support.waiting import eventually

PARTITIONS = 6


class Copy:
    """Topics A and B, a group, and its members."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.group, self.source, self.target = f"{name}-group", f"{name}-a", f"{name}-b"
        topics = [TopicSpec(self.source, PARTITIONS), TopicSpec(self.target, 3)]
        create_topics(connection, topics, Deadline.after(30))
        self._pen = PlainProducer(connection.librdkafka())
        self.written = 0
        self.members: list[Member] = []

    def write(self, count: int) -> None:
        """The next `count` numbers, to all partitions in turn."""
        for number in range(self.written, self.written + count):
            self._pen.produce(self.source, str(number).encode(), partition=number % PARTITIONS)
        assert self._pen.flush(30) == 0
        self.written += count

    def join(self, **settings: float) -> "Member":
        member = Member(self, len(self.members), **settings)
        self.members.append(member)
        return member

    def visible(self) -> list[int]:
        """What a read_committed reader of B sees, in order of the numbers."""
        log = TopicLog(self.connection, self.target)
        try:
            return sorted(int(record.value or b"-1") for record in log.read_to_end(Deadline.after(60)))
        finally:
            log.close()

    def close(self) -> None:
        """Its clients end when nobody holds them any more."""
        for member in self.members:
            member._stop.set()
        self.members.clear()
        del self._pen

    def exact(self) -> None:
        eventually(lambda: len(self.visible()) >= self.written, 60, f"{self.written} records", pause=0.2)
        assert self.visible() == list(range(self.written)), "missing or twice"


class Member:
    """A member of the group, stepped by its thread (`run`) or by the test."""

    def __init__(self, copy: Copy, number: int, *, interval_s: float = 0.0, max_poll_s: float = 30.0) -> None:
        self._copy = copy
        self._id = f"{copy.group}-{number}"
        self._max_poll_ms = int(max_poll_s * 1000)
        self.producers = 0
        self.handled: list[int] = []
        self.before: Callable[[], None] = lambda: None
        self.group: InputGroupMember | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.trouble: Exception | None = None
        self.input = GroupCopier(
            self._join, self._new_producer, self._copied, SYSTEM_CLOCK, interval_s=interval_s, limit=50
        )

    def _join(self, on_revoke: Callable[[], None], on_loss: Callable[[], None]) -> InputGroupMember:
        self.group = InputGroupMember(
            self._copy.connection,
            self._copy.group,
            [self._copy.source],
            self._id,
            on_revoke,
            on_loss,
            session_timeout_ms=min(30_000, self._max_poll_ms),
            max_poll_interval_ms=self._max_poll_ms,
        )
        return self.group

    def _new_producer(self) -> Producer:
        self.producers += 1
        return Producer(self._copy.connection, self._id, transaction_timeout_ms=600_000)

    def _copied(self, records: Sequence[InputRecord], producer: OffsetsProducer) -> None:
        self.before()
        for record in records:
            producer.produce(self._copy.target, record.value)
            self.handled.append(int(record.value or b"-1"))

    @property
    def owned(self) -> int:
        assert self.group is not None
        return len(self.group.owned)

    def run(self) -> "Member":
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.input.step(0.1)
        except Exception as error:  # shown by `leave`
            self.trouble = error

    def step_until(self, condition: Callable[[], bool], what: str) -> None:
        def stepped() -> bool:
            self.input.step(0.1)
            return condition()

        eventually(stepped, 60, what)

    def leave(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(60)
        assert self.trouble is None, self.trouble
        self.input.close()


@pytest.fixture
def copy(broker: Broker, unique: Callable[[str], str]) -> Iterator[Copy]:
    made = Copy(Connection(broker.bootstrap), unique("copy"))
    yield made
    made.close()


def test_each_record_is_copied_once_while_members_come_and_go(copy: Copy) -> None:
    copy.write(300)
    first = copy.join(interval_s=0.05).run()
    eventually(lambda: len(first.handled) > 100, 60, "the first member copies")
    second = copy.join(interval_s=0.05).run()
    copy.write(300)
    eventually(lambda: first.owned == second.owned == PARTITIONS // 2, 60, "both have their share")
    copy.write(300)
    copy.exact()
    first.leave()
    copy.write(300)
    copy.exact()
    second.leave()
    copy.exact()
    assert (first.producers, second.producers) == (1, 1), "one producer a member, whatever it is assigned"
    assert sorted(first.handled + second.handled) == list(range(1200)), "nothing had to be read again"


def test_the_open_transaction_is_finished_inside_the_revocation(copy: Copy) -> None:
    copy.write(120)
    first = copy.join(interval_s=3600)
    first.step_until(lambda: len(first.handled) == 120, "all is read")
    assert first.input.open
    second = copy.join().run()
    first.step_until(lambda: second.owned > 0, "the second member has its share")
    copy.exact()
    assert (first.input.committed, first.input.aborted) == (1, 0)
    second.leave()
    assert second.handled == [], "the next owner goes on behind what the first one has committed"
    first.leave()


def members(copy: Copy) -> list[GroupMember]:
    return group_members(copy.connection, copy.group, Deadline.after(20))


def test_a_zombie_that_was_put_out_of_the_group_is_refused(copy: Copy) -> None:
    copy.write(120)
    zombie = copy.join(interval_s=3600, max_poll_s=6)
    zombie.step_until(lambda: len(zombie.handled) == 120, "all is read")
    assert zombie.group is not None
    captured = zombie.group.metadata
    assert captured is not None
    # It does not poll, so after six seconds its client gives its place up.
    eventually(lambda: not members(copy), 60, "the zombie is put out", pause=0.2)
    heir = copy.join().run()
    eventually(lambda: set(heir.handled) == set(range(120)), 60, "its heir has copied everything")
    with pytest.raises(Fenced) as refused:
        zombie.input._producer.send_offsets([(copy.source, 0, 20)], captured.raw, Deadline.after(10))
    assert refused.value.code in OLD_GENERATION
    zombie.step_until(lambda: zombie.input.aborted == 1, "it aborts what it had open as soon as it hears of its loss")
    zombie.input._interval_s = 0
    copy.exact()
    copy.write(60)
    zombie.step_until(lambda: len(copy.visible()) == 180, "it is a member again, with a new producer")
    heir.leave()
    zombie.leave()
    copy.exact()


@pytest.mark.slow
def test_a_late_commit_of_an_old_generation_is_aborted_and_read_again(copy: Copy) -> None:
    """The member wakes up in the middle of its own commit, before it has heard of its loss."""
    copy.write(120)
    zombie = copy.join(interval_s=3600, max_poll_s=6)
    zombie.step_until(lambda: len(zombie.handled) == 120, "all is read")
    heir = copy.join().run()
    eventually(lambda: len(heir.handled) == 120, 60, "its heir has copied everything")
    zombie.input._finish()
    assert (zombie.input.committed, zombie.input.aborted) == (0, 1)
    copy.exact()
    heir.leave()
    zombie.leave()
    copy.exact()


def test_pending_offsets_are_waited_for_when_partitions_change_hands(copy: Copy) -> None:
    copy.write(60)
    first = copy.join(interval_s=3600)
    first.step_until(lambda: len(first.handled) == 60, "all is read")
    group, producer = first.group, first.input._producer
    assert group is not None
    assert group.metadata is not None
    offsets = [(topic, partition, 10) for topic, partition in group.owned]
    producer.send_offsets(offsets, group.metadata.raw, Deadline.after(30))
    group._on_revoke = lambda: None  # it leaves in the middle of its commit
    group.close()
    second = copy.join()
    second.step_until(lambda: second.owned == PARTITIONS, "the partitions have changed hands")
    for _ in range(15):
        assert second.input.step(0.1) == 0, "it would read what is about to be committed"
    producer.commit(Deadline.after(30))
    copy.write(60)
    second.step_until(lambda: len(second.handled) == 60, "it goes on behind the commit")
    copy.exact()
    second.leave()
    producer.close()


def test_another_producer_with_the_id_is_told_and_not_fought(copy: Copy) -> None:
    copy.write(30)
    member = copy.join(interval_s=3600)
    member.step_until(lambda: len(member.handled) == 30, "all is read")
    rival = Producer(copy.connection, f"{copy.group}-0")
    rival.init(Deadline.after(30))
    member.input._interval_s = 0
    with pytest.raises(Fenced) as refused:
        member.input.step(0.1)
    assert refused.value.code not in OLD_GENERATION
    rival.close()
    member.input.close()
    assert copy.visible() == []


def test_what_was_aborted_is_read_again_by_the_same_owner(copy: Copy) -> None:
    def stumble() -> None:
        member.before = lambda: None
        raise ValueError("the target is away")

    copy.write(120)
    member = copy.join(interval_s=3600)
    member.step_until(lambda: len(member.handled) >= 40, "something is read")
    copy.write(60)
    member.before = stumble
    with pytest.raises(ValueError, match="the target is away"):
        member.step_until(lambda: False, "it stumbles")
    member.input._interval_s = 0
    member.step_until(lambda: len(copy.visible()) == 180, "all is copied")
    copy.exact()
    assert (member.producers, member.input.aborted) == (1, 1)
    member.leave()


class SlowToAssign(Consumer):
    """A client whose main thread ends its membership while the callback still runs."""

    def assign(self, *partitions: Any) -> None:
        super().assign(*partitions)
        with suppress(RuntimeError):  # raised when the member has left
            eventually(lambda: not self.consumer_group_metadata(), 3)


def test_a_member_may_close_before_it_has_seen_its_assignment(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka delivers the assignment inside `close`, in which the metadata of the group disappears."""
    first = copy.join().run()
    eventually(lambda: first.owned == PARTITIONS, 60, "the first member owns everything")
    monkeypatch.setattr(membership, "Consumer", SlowToAssign)
    second = copy.join()
    eventually(
        lambda: [len(one.topics) for one in members(copy)] == [1, 1], 60, "the broker has divided the partitions"
    )
    assert second.owned == 0
    second.leave()
    first.leave()
    eventually(lambda: not members(copy), 10, "both have left")


def test_what_a_callback_raises_reaches_the_caller(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Consumer({"group.id": copy.group})
    gone.close()

    class Broken(Consumer):
        def unassign(self) -> None:
            gone.consumer_group_metadata()

    monkeypatch.setattr(membership, "Consumer", Broken)
    member = copy.join()
    member.step_until(lambda: member.owned == PARTITIONS, "it owns everything")
    with pytest.raises(RuntimeError, match="closed"):
        member.leave()
