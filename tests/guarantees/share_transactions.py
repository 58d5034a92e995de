"""A share-partition of transactional input on a real broker, offset by offset: markers, aborted records, renewed locks.

Beside it the pure one says what each fetch acquires and what is persisted of each answer.

A leader keeps a share-partition in memory for as long as some member has a share session with it (which its first
fetch opens), and reads what was persisted when the next one comes. Aborted records are available again then, until
somebody fetches them: they are missing in the count of what is complete, and the start goes back to before them.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import replace

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import alter_share_group
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.share.share_partition import state_topic
from ringfence.fencing.share.share_partition.state_machine import Acknowledgement, Answer, Change, SharePartition, prune
from ringfence.fencing.share.share_partition.state_topic import Entry, PersistedState, StateTable
from tests.guarantees.share_partitions import Holder, StateReader, strip_times, summarize
from tests.support.raw_share import RENEW, RawShareMember
from tests.support.waiting import eventually

LIMIT = 2
_ALL = 500


class Feeder:
    """Transactions of several producers at once. `records` and `aborted` are the offsets of the topic's data."""

    def __init__(self, connection: Connection, topic: str, rng: random.Random) -> None:
        self._topic, self._rng = topic, rng
        self.records: set[int] = set()
        self.aborted: set[int] = set()
        self.end = 0
        self._settings = connection.librdkafka(group_id="none", isolation_level="read_committed")
        self._pens = []
        for number in range(2):
            pen = Producer(connection.librdkafka(transactional_id=f"{topic}-{number}", linger_ms=0))
            pen.init_transactions(30)
            self._pens.append(pen)

    def feed(self) -> None:
        """Two transactions in one another, each of which is committed or aborted."""
        written: list[list[int]] = [[] for _ in self._pens]
        for pen in self._pens:
            pen.begin_transaction()
        for _ in range(self._rng.randint(2, 5)):
            number = self._rng.randrange(len(self._pens))
            found = written[number]

            def note(error: KafkaError | None, message: Message, found: list[int] = found) -> None:
                assert error is None, error
                found.append(int(message.offset() or 0))

            for _ in range(self._rng.randint(1, 5)):
                self._pens[number].produce(self._topic, b"x", on_delivery=note)
            self._pens[number].flush(30)
        for pen, found in zip(self._pens, written, strict=True):
            self.end += len(found) + bool(found)  # a marker follows
            if self._rng.random() < 0.5:
                pen.commit_transaction(30)
                self.records |= set(found)
            else:
                pen.abort_transaction(30)
                self.aborted |= set(found)
        # The coordinator answers before the markers stand in the log.
        reader, place = Consumer(self._settings), TopicPartition(self._topic, 0)
        try:
            eventually(lambda: reader.get_watermark_offsets(place, 10)[1] == self.end, 30, "the markers")
        finally:
            reader.close()


Member = Holder[RawShareMember, int]
"""And the offsets that it has acquired."""


class TransactionLab:
    """One share-partition, its members, and the same as the module has it."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        seed: int,
        lock_ms: int,
        *,
        expires: bool = False,
        updates: int = state_topic.UPDATES_PER_SNAPSHOT,
    ) -> None:
        """expires: let locks expire, too, which takes their time. updates: how many are written before a snapshot."""
        self.connection, self.topic, self.group = connection, f"{name}-in", f"{name}-group"
        self._rng, self._expires, self._updates, self._lock_s = random.Random(seed), expires, updates, lock_ms / 1000
        create_topics(connection, [TopicSpec(self.topic)], Deadline.after(30))
        settings = {
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": "60000",
            "record.lock.duration.ms": str(lock_ms),
            "delivery.count.limit": str(LIMIT),
        }
        alter_share_group(connection, self.group, settings, Deadline.after(30))
        self.feeder = Feeder(connection, self.topic, self._rng)
        while not self.feeder.records:
            self.feeder.feed()
        self.model = SharePartition.begin(0, LIMIT, self._lock_s)
        self.done: list[str] = []
        self.join()
        self.read()

    def join(self) -> None:
        """Members, the first of which has acquired something; before that, nothing is persisted."""
        self.holders = [Member(name, RawShareMember(self.connection, self.group, self.topic)) for name in ("A", "B")]
        self._fetch(self.holders[0])

    def read(self) -> None:
        """The group's state from the beginning of its topic."""
        self._reader = StateReader(self.connection, self.group)
        self.table, self.history = StateTable(), list[Entry]()
        self._take(self._reader.read())

    @property
    def state(self) -> PersistedState:
        (state,) = self.table.states.values()
        return state

    def step(self) -> None:
        """One operation of one member."""
        for holder in self.holders:
            if holder.held and time.monotonic() - holder.since > self._lock_s / 3:
                self._renew(holder)
        holder = self._rng.choice(self.holders)
        weights = [4, 6, 1, 1, 0 if "expire" in self.done else 1]  # which takes long
        kind = self._rng.choices(["fetch", "answer", "leave", "renew", "expire"], weights)[0]
        if not holder.held or kind == "fetch":
            self._fetch(holder)
        elif kind == "leave":
            self._leave(holder)
        elif kind == "renew":
            self._renew(holder)
        elif kind == "expire" and self._expires:
            self._let_expire()
        else:
            self._answer(holder)

    def _fetch(self, holder: Member) -> None:
        """All that is available; some of it, where all of that was delivered before.

        Aborted records come in no answer. The last offset of the input is a marker, which does, so all before it is
        acquired, too, when it has come.
        """
        found = self.model.find_available(_ALL, self.feeder.end)
        if not found:
            self.feeder.feed()
            found = self.model.find_available(_ALL, self.feeder.end)
        if found[-1][1] < self.model.end and not any(self._has_aborted(*one) for one in found):
            found = self.model.find_available(self._rng.randint(1, 12), self.feeder.end)
        if holder.held:  # all of them are locked for as long
            self._renew(holder)
        holder.since = time.monotonic()
        offsets = [offset for first, last in found for offset in range(first, last + 1)]
        for first, last in found:
            hidden = [(one, one) for one in range(first, last + 1) if one in self.feeder.aborted]
            self.model = self.model.acquire(first, last, holder.name, aborted_ranges=hidden)
        expected = {offset: self._count(offset) for offset in offsets if offset not in self.feeder.aborted}
        seen: dict[int, int] = {}

        def complete() -> bool:
            acquired, _ = holder.member.fetch(min(_ALL, len(offsets) - len(seen)))
            seen.update({offset: count for first, last, count in acquired for offset in range(first, last + 1)})
            assert seen.items() <= expected.items(), f"{seen}\n{self.done}\n{self.model}"
            return len(seen) == len(expected)

        eventually(complete, 60, lambda: f"{expected}, not {seen}\n{self.done}\n{self.model}")
        holder.held += list(seen)
        self.done += ["fetch", *(["aborted"] if len(seen) < len(offsets) else [])]

    def _has_aborted(self, first: int, last: int) -> bool:
        return any(offset in self.feeder.aborted for offset in range(first, last + 1))

    def _count(self, offset: int) -> int:
        return next(one.delivery_count for one in self.model.batches if one.first <= offset <= one.last)

    def _answer(self, holder: Member) -> None:
        """To some of what it holds, each in its own way, all in one request."""
        some = sorted(self._rng.sample(holder.held, self._rng.randint(1, len(holder.held))))
        kinds = [
            self._rng.choices(list(Acknowledgement), [0, 6, 3, 1] if one in self.feeder.records else [6, 0, 1, 0])[0]
            for one in some
        ]
        answers = [Answer(offset, offset, kind) for offset, kind in zip(some, kinds, strict=True)]
        assert holder.member.acknowledge([(one.first, one.last, one.kind) for one in answers]) == 0
        holder.held = [one for one in holder.held if one not in some]
        self.done += sorted({kind.name.lower() for kind in kinds})
        self.expect(self.model.acknowledge(holder.name, answers))

    def _renew(self, holder: Member) -> None:
        assert holder.member.acknowledge([(one, one, RENEW) for one in holder.held]) == 0
        holder.since = time.monotonic()
        for one in holder.held:
            self.model = self.model.renew(holder.name, one, one, 0.0)
        self.done.append("renew")

    def _leave(self, holder: Member) -> None:
        holder.member.close()
        holder.held = []
        holder.member = RawShareMember(self.connection, self.group, self.topic)
        self.done.append("leave")
        self.expect(self.model.leave(holder.name))
        if not any(one.member.has_session for one in self.holders):
            self._recover_model()
            self.done.append("forgotten")

    def _let_expire(self) -> None:
        """All locks: each lock writes for itself, so what they come to is compared."""
        change = self.model.expire(float("inf"))

        def expired() -> bool:
            self._take(self._reader.read())
            return self._agrees(change.partition)

        self.done.append("expire")
        eventually(expired, self._lock_s * 3 + 20, lambda: f"{self.state} for {change.partition}")
        for holder in self.holders:
            holder.held = []
        self.model = change.partition

    def expect(self, change: Change) -> None:
        """One record, with these ranges, this start and this count."""
        expected = state_topic.write(self.state, change, self.state.leader_epoch, limit=self._updates)
        found = self._reader.read_next()
        said = [strip_times(entry.record) for entry in found]
        assert said == [strip_times(expected)], f"{said}, not {expected}\n{self.done}\n{self.model}"
        self.model = change.partition
        self._take(found)
        assert self._agrees(self.model), f"{self.state}\n{self.model}"

    def _take(self, entries: Sequence[Entry]) -> None:
        self.history += entries
        for entry in entries:
            self.table.take(entry)

    def _agrees(self, model: SharePartition) -> bool:
        """A leader that recovered now would know the same, but for what was aborted: that it reads again."""
        recovered = self.state.partition
        left = [one for one in recovered.batches if one.first < model.start and not one.state.terminal]
        again = {offset for one in left for offset in range(one.first, min(one.last + 1, model.start))}
        behind = replace(recovered, start=model.start, batches=prune(recovered.batches, model.start))
        return again <= self.feeder.aborted and summarize(behind)[1] == summarize(model)[1]

    def recover(self) -> None:
        """As after the end of the leader: from what was persisted alone, and with new members."""
        self._recover_model()
        self.join()
        self._take(self._reader.read())

    def _recover_model(self) -> None:
        self.model = replace(self.state.partition, delivery_limit=LIMIT, lock_s=self._lock_s)

    def close(self) -> None:
        self._reader.close()
        for holder in self.holders:
            holder.member.close()
