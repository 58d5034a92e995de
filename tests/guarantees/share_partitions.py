"""Random operations on a real share-partition, and beside them on the pure one: equal in what the broker persists."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from confluent_kafka import Consumer, Producer, TopicPartition

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import Answer as Said
from ringfence.fencing.kafka.share_groups import Message, ShareMember, alter_share_group
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.kafka.topic_offsets import OffsetKind, end_offsets, offsets_at
from ringfence.fencing.share.share_partition import state_topic
from ringfence.fencing.share.share_partition.state_machine import (
    Acknowledgement,
    Answer,
    Batches,
    Change,
    RecordState,
    SharePartition,
    merge,
)
from ringfence.fencing.share.share_partition.state_topic import (
    STATE_TOPIC,
    Entry,
    PersistedState,
    ShareUpdate,
    StateKey,
    StateRecord,
    StateTable,
)
from tests.support.waiting import eventually

LIMIT = 2
_BATCH = 5
_RECORDS = 1000
_SAID = {
    Acknowledgement.ACCEPT: Said.ACCEPT,
    Acknowledgement.RELEASE: Said.RELEASE,
    Acknowledgement.REJECT: Said.REJECT,
}


class StateReader:
    """Follows one group's records of the state topic, from its beginning."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._connection = connection
        self._group = group
        settings = connection.librdkafka(group_id="none", enable_auto_commit=False, fetch_wait_max_ms=20)
        self._consumer = Consumer(settings)
        self.partitions = sorted(self._consumer.list_topics(STATE_TOPIC, 10).topics[STATE_TOPIC].partitions)
        # The brokers delete what is before the snapshots.
        self._positions = offsets_at(connection, STATE_TOPIC, self.partitions, OffsetKind.FIRST, Deadline.after(10))
        self._consumer.assign([TopicPartition(STATE_TOPIC, *one) for one in self._positions.items()])

    def read(self) -> list[Entry]:
        """What is new, up to the end as it is now."""
        ends = end_offsets(self._connection, STATE_TOPIC, self.partitions, Deadline.after(10))
        found: list[Entry] = []
        until = time.monotonic() + 20
        while any(self._positions[number] < ends[number] for number in self.partitions):
            assert time.monotonic() < until, "the state topic cannot be read to its end"
            for message in self._consumer.consume(500, 0.1):
                assert message.error() is None, message.error()
                offset = int(message.offset() or 0)
                self._positions[int(message.partition() or 0)] = offset + 1
                entry = state_topic.read(offset, message.timestamp()[1], message.key(), message.value())
                if entry is not None and entry.key.group_id == self._group:
                    found.append(entry)
        return found

    def read_next(self) -> list[Entry]:
        """Return the same, once there is something."""
        found: list[Entry] = []

        def arrived() -> bool:
            found.extend(self.read())
            return bool(found)

        eventually(arrived, 20, "a record of the state topic")
        return found

    def close(self) -> None:
        self._consumer.close()


M = TypeVar("M")
H = TypeVar("H")


@dataclass
class Holder(Generic[M, H]):
    """A member and what it has acquired."""

    name: str
    member: M
    held: list[H] = field(default_factory=list)
    since: float = 0.0


class Lab:
    """One share-partition on a broker, its members, and the same as the module has it."""

    def __init__(
        self, connection: Connection, name: str, seed: int, lock_ms: int, *, everything: bool, updates: int = 500
    ) -> None:
        """everything: members leave and locks expire, too, which takes seconds on a broker of usual settings.

        updates: how many the broker writes before a snapshot.
        """
        self._updates = updates
        self.connection, self.topic, self.group = connection, f"{name}-in", f"{name}-group"
        self._rng = random.Random(seed)
        self._weights = (8, 1, 1) if everything else (1, 0, 0)
        self._lock_s = lock_ms / 1000
        create_topics(connection, [TopicSpec(self.topic)], Deadline.after(30))
        pen = Producer(connection.librdkafka(linger_ms=0))
        for number in range(_RECORDS):
            pen.produce(self.topic, b"%d" % number)
            if number % _BATCH == _BATCH - 1:
                pen.flush(30)
        settings = {
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "record.lock.duration.ms": str(lock_ms),
            "delivery.count.limit": str(LIMIT),
        }
        alter_share_group(connection, self.group, settings, Deadline.after(30))
        self.model = SharePartition.begin(0, LIMIT, self._lock_s)
        self.table = StateTable()
        self.history: list[Entry] = []
        self.done: list[str] = []
        self.join()
        self.read()

    def join(self) -> None:
        """Members, the first of which has acquired something; before that, nothing is persisted."""
        self.holders = [Holder[ShareMember, Message](name, self._member(name)) for name in ("A", "B", "C")]
        eventually(lambda: self._poll(self.holders[0]), 60, "the first records")

    def read(self) -> None:
        """The group's state from the beginning of its topic."""
        self._reader = StateReader(self.connection, self.group)
        self.table, self.history = StateTable(), []
        self._take(self._reader.read())

    def _member(self, name: str) -> ShareMember:
        return ShareMember(self.connection, self.group, [self.topic], name, _BATCH)

    @property
    def state(self) -> PersistedState:
        (state,) = self.table.states.values()
        return state

    @property
    def key(self) -> StateKey:
        (key,) = self.table.states
        return key

    def step(self) -> None:
        """One operation of one member, of which the broker persists what the module says."""
        if any(one.held and time.monotonic() - one.since > self._lock_s / 2 for one in self.holders):
            self._let_expire()  # before its answer could come too late
            return
        holder = self._rng.choice(self.holders)
        if not holder.held:
            self._poll(holder)
            return
        kind = self._rng.choices(["answer", "leave", "expire"], self._weights)[0]
        if kind == "answer":
            self._answer(holder)
        elif kind == "leave":
            self._leave(holder)
        else:
            self._let_expire()

    def _poll(self, holder: Holder[ShareMember, Message]) -> bool:
        holder.since = time.monotonic()
        holder.held = holder.member.poll(0.5)
        for first, last, count in ranges(holder.held):
            self.model = self.model.acquire(first, last, holder.name)
            counts = {one.delivery_count for one in self.model.batches if one.first <= last and one.last >= first}
            assert counts == {count}, f"{first}-{last} was delivered for the {count}th time"
        if holder.held:
            self.done.append("acquire")
        return bool(holder.held)

    def _answer(self, holder: Holder[ShareMember, Message]) -> None:
        """Each record in its own way, all in one request."""
        kinds = self._rng.choices(list(_SAID), [6, 4, 1], k=len(holder.held))
        if self._rng.random() < 0.5:
            kinds = [kinds[0]] * len(kinds)
        answers = []
        for message, kind in zip(holder.held, kinds, strict=True):
            offset = int(message.offset() or 0)
            answers.append(Answer(offset, offset, kind))
            holder.member.answer(message, _SAID[kind])
        holder.member.send_answers(10)
        holder.held = []
        self.done += sorted({kind.name.lower() for kind in kinds})
        self._expect(self.model.acknowledge(holder.name, answers))

    def _leave(self, holder: Holder[ShareMember, Message]) -> None:
        holder.member.close()
        holder.held = []
        holder.member = self._member(holder.name)
        self.done.append("leave")
        self._expect(self.model.leave(holder.name))

    def _expect(self, change: Change) -> None:
        """One record, with these ranges, this start and this count."""
        expected = state_topic.write(self.state, change, self.state.leader_epoch, limit=self._updates)
        found = self._reader.read_next()
        assert [strip_times(entry.record) for entry in found] == [expected], f"{self.done}\n{found}\nfor {expected}"
        self.model = change.partition
        self._take(found)
        self._compare()

    def _let_expire(self) -> None:
        """All locks: each lock writes for itself, so what they come to is compared."""
        change = self.model.expire(float("inf"))

        def expired() -> bool:
            self._take(self._reader.read())
            return self._persisted() == summarize(change.partition)

        self.done.append("expire")
        eventually(expired, self._lock_s * 3 + 20, lambda: f"{self._persisted()} for {summarize(change.partition)}")
        for holder in self.holders:
            for message in holder.held:
                holder.member.answer(message, Said.RELEASE)  # refused, and asked for by the client
            holder.held = []
        self.model = change.partition
        self._compare()

    def _take(self, entries: Sequence[Entry]) -> None:
        self.history += entries
        for entry in entries:
            self.table.take(entry)

    def _persisted(self) -> tuple[int, Batches]:
        """What a leader would recover from the topic now."""
        return summarize(self.state.partition)

    def _compare(self) -> None:
        assert self._persisted() == summarize(self.model)

    def recover(self) -> None:
        """As after the end of the leader: from what was persisted alone, and with new members."""
        self.model = replace(self.state.partition, delivery_limit=LIMIT, lock_s=self._lock_s)
        self.join()
        before = self.state
        self._take(self._reader.read())
        assert self.state == replace(
            before,
            leader_epoch=self.state.leader_epoch,
            updates=self.state.updates,
            snapshot_epoch=self.state.snapshot_epoch,
        )

    def close(self) -> None:
        self._reader.close()
        for holder in self.holders:
            holder.member.close()


def summarize(partition: SharePartition) -> tuple[int, Batches]:
    """The start, and what is to be said of the records: deliveries that are not over are not counted."""
    said = (one for one in partition.fold() if one.delivery_count or one.state is not RecordState.AVAILABLE)
    return partition.start, tuple(said)


def ranges(messages: Sequence[Message]) -> list[tuple[int, int, int]]:
    """First and last offset, and the delivery count that they have in common."""
    found: list[tuple[int, int, int]] = []
    for message in messages:
        offset, count = int(message.offset() or 0), int(message.delivery_count() or 0)
        if found and found[-1][1:] == (offset - 1, count):
            found[-1] = (found[-1][0], offset, count)
        else:
            found.append((offset, offset, count))
    return found


def strip_times(record: StateRecord | None) -> StateRecord | None:
    """Without what no two runs have in common; ranges that say the same joined."""
    if record is None:
        return None
    joined = replace(record, batches=merge((), record.batches))
    return joined if isinstance(joined, ShareUpdate) else replace(joined, create_timestamp=-1, write_timestamp=-1)
