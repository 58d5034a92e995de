"""Reads a topic from its beginning to a known end, and follows it from there: config, status, offsets, events.

"The end" is the read_uncommitted end offset. It is requested when a read begins, so after the init or fence that the
read must cover (invariant 6). No open transaction of another producer blocks the read:

1. Up to the last stable offset (LSO), a read_committed client reads.
2. From there to the end, the batches are read raw, and each producer's own markers decide which records count
   (`fencing.kafka.record_batches`).

A reader that has fenced or initialised the transactional ids whose records it needs misses none of them:

- The coordinator answers InitProducerId only after the id's previous transaction is complete. Until then, it answers
  CONCURRENT_TRANSACTIONS. "Complete" means that the leader of each partition has written the marker and replicated it
  as with acks=all, so the marker is below the high watermark.
- So after the init of an id, the markers of all its transactions are before any end that is requested from then on.
  This includes a transaction whose EndTxn was answered before its markers were written.
- A transaction that is still open at that end belongs to another id and is left out. It can only be committed after
  this read. A reader that needs it must fence or initialise that id first.

A reader that has not done so sees all commits whose markers are written. It may pass its own producer id (`own`): then
the read waits for the markers of that producer.

`follow` reads as a read_committed client. If an open transaction blocks it for a second, the committed records behind
that transaction are read raw into `ahead`.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Retriable, TopicLost
from ringfence.fencing.fetching.log_reader import LogReader
from ringfence.fencing.fetching.raw_reader import RawReader
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import Isolation, LogRecord, PartitionReader, every_key
from ringfence.fencing.kafka.record_batches import Batch, Decisions
from ringfence.fencing.kafka.topic_admin import topic_identity
from ringfence.fencing.kafka.topic_offsets import OffsetKind, end_offsets, offsets_at

Positions = Mapping[int, int]
KeyFilter = Callable[[bytes | None], bool]

FETCH_WAIT_MS: Final = 5
MARKER_SECONDS: Final = 0.005


class OpenTail:
    """The open tail of one topic."""

    def __init__(self, connection: Connection, topic: str, partitions: Sequence[int]) -> None:
        self._connection = connection
        self._topic = topic
        self._partitions = partitions

    def read(
        self,
        starts: Positions,
        ends: Positions,
        deadline: Deadline,
        own: int,
        key_filter: KeyFilter,
        most_bytes: int | None = None,
    ) -> list[LogRecord]:
        """Return the committed records between these offsets; of more than `most_bytes` the first ones only."""
        with RawReader(self._connection, self._topic) as fetcher:
            while True:
                decisions = {p: Decisions() for p in starts}

                def take(partition: int, batch: Batch, decisions: Mapping[int, Decisions] = decisions) -> None:
                    decisions[partition].take(batch)

                until = {p: ends[p] for p in starts}
                fetcher.read(starts, until, deadline, take)
                if not any(own in each.open for each in decisions.values()):
                    break
                if deadline.expired:
                    raise Retriable(
                        f"Topic {self._topic}: the marker of our own commit (producer {own}) has not arrived "
                        "in time. The broker is slow; it is tried again"
                    )
                # The markers of an acknowledged commit may still be written, after the end that was read.
                time.sleep(deadline.slice(MARKER_SECONDS))
                ends = end_offsets(self._connection, self._topic, self._partitions, deadline)
        return self._contents(starts, until, decisions, deadline, key_filter, most_bytes)

    def _contents(
        self,
        starts: Positions,
        ends: Positions,
        decisions: Mapping[int, Decisions],
        deadline: Deadline,
        key_filter: KeyFilter,
        most_bytes: int | None,
    ) -> list[LogRecord]:
        """Read the contents of the batches."""
        hidden_offsets = {p: each.find_hidden() for p, each in decisions.items()}
        lasts = {p: each.last_visible for p, each in decisions.items() if each.last_visible is not None}
        records: list[LogRecord] = []
        size = 0
        if not lasts:
            return records
        first = {p: starts[p] for p in lasts}
        reader: _Reader
        if _is_short(first, {p: last + 1 for p, last in lasts.items()}):
            reader = LogReader(self._connection, self._topic, first, isolation=Isolation.UNCOMMITTED)
        else:
            reader = PartitionReader(
                self._connection, self._topic, first, isolation=Isolation.UNCOMMITTED, fetch_wait_ms=FETCH_WAIT_MS
            )
        try:
            while any(reader.positions[p] <= last for p, last in lasts.items()):
                if most_bytes is not None and size > most_bytes:
                    break
                if deadline.expired:
                    raise late(self._topic, reader.positions, {p: ends[p] for p in lasts})
                for record in reader.poll(deadline.slice(0.1), 1000, key_filter):
                    hidden = hidden_offsets[record.partition]
                    if record.offset < ends[record.partition] and record.offset not in hidden:
                        records.append(record)
                        size += len(record.key or b"") + len(record.value or b"")
        finally:
            reader.close()
        return records


def late(topic: str, positions: Positions, ends: Positions) -> Retriable:
    """Return the error for an end that was not reached in time, with the progress."""
    behind = {p: (positions[p], end) for p, end in ends.items() if positions[p] < end}
    return Retriable(
        f"The end of topic {topic} was not reached in time: partition: (position, end) {behind}. A "
        "transaction that is still open holds it back, the broker is slow, or the topic is long and not compacted. "
        "It is tried again"
    )


__all__ = ["PATIENCE_SECONDS", "Isolation", "LogRecord", "ReadingTurns", "TopicLog"]

OnProgress = Callable[[Positions, Positions], None]

PATIENCE_SECONDS = 0.05
"""`patience_s` for topics with rare and short transactions."""

_STALL_SECONDS = 2.0
_HELD_SECONDS = 1.0
_AHEAD_SECONDS = 10.0
_SHOWN_SECONDS, _AGAIN_SECONDS = 3.0, 30.0
"""How long to look for what is only shown, and how long to leave it where that was not enough."""


_Reader = LogReader | PartitionReader
_SHORT: Final = 3000
"""Up to so many offsets, reading them with a `LogReader` takes less than the start of a client that reads faster."""


def _is_short(positions: Positions, ends: Positions) -> bool:
    return sum(max(0, end - positions.get(p, 0)) for p, end in ends.items()) <= _SHORT


def _untold(_positions: Positions, _ends: Positions) -> None:
    pass


class ReadingTurns:
    """One reader of a log at a time: a thread that follows it, and others that now and then read it to its end.

    Python gives a lock to whoever comes first, which is most often the thread that has just released it. So the
    follower lets the others go first: they waited for a minute otherwise.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle = threading.Condition()
        self._others = 0

    @contextlib.contextmanager
    def follow(self, seconds: float = 1.0) -> Iterator[None]:
        """The follower's turn, once nobody else reads or waits. After `seconds`, it waits in line with them."""
        with self._idle:
            self._idle.wait_for(lambda: not self._others, seconds)
        with self._lock:
            yield

    @contextlib.contextmanager
    def read(self) -> Iterator[None]:
        """The turn of any other thread."""
        with self._idle:
            self._others += 1
        try:
            with self._lock:
                yield
        finally:
            with self._idle:
                self._others -= 1
                self._idle.notify_all()


class TopicLog:
    """All partitions of one topic. Not shared between threads."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        start: Positions | None = None,
        *,
        deadline: Deadline | None = None,
        isolation: Isolation = Isolation.COMMITTED,
        patience_s: float = 0.0,
        keep_reader: bool = False,
        gather_ms: int = 0,
    ) -> None:
        """start: first offset per partition, 0 for a partition without one. Waits for the topic until `deadline`.

        isolation: UNCOMMITTED for topics without transactions. patience_s: how long a read waits for the LSO before it
        reads raw. The markers of a commit are usually written within 25 ms. keep_reader: whether `catch_up` keeps its
        connection, as it does once `poll` is used: for logs that are read again and again. gather_ms: for logs with
        very many records, which `poll` then reads with a `PartitionReader`: see there.
        """
        self._connection = connection
        self.topic = topic
        self.topic_id, self.partitions = topic_identity(connection, topic, deadline or Deadline.after(30))
        self._isolation = isolation
        self._patience_s = patience_s
        self._positions = {p: (start or {}).get(p, 0) for p in self.partitions}
        self._reader: _Reader | None = None
        """Of `poll`, and of what is short if it is kept. It is created by the first of them."""
        self._gather_ms = gather_ms
        self._keep_reader = keep_reader
        self._is_light = isolation is Isolation.COMMITTED and not gather_ms
        self._closed = False
        self._still: dict[int, tuple[int, float]] = {}
        self._last_ends: dict[int, int] = {}
        self._not_before = 0.0
        self.ahead: list[LogRecord] = []
        """The committed records after `positions` that the last `catch_up` found, in order within each partition."""

    @property
    def positions(self) -> dict[int, int]:
        """The next offset per partition. It also moves past aborted records and markers, but never past the LSO."""
        return dict(self._positions if self._reader is None else self._reader.positions)

    def restart(self, start: Positions | None = None) -> None:
        """Continue from these offsets, from 0 in a partition without one."""
        self._move({p: (start or {}).get(p, 0) for p in self.partitions})

    def _move(self, positions: Positions) -> None:
        self._positions = dict(positions)
        if self._reader is not None:
            self._reader.move(positions)

    def poll(self, timeout: float, limit: int = 500) -> list[LogRecord]:
        """Return new records, in order within each partition; none after `timeout` seconds without a record.

        Returns only records before the LSO, so those in `ahead` are returned again later. Raises `Fatal` after `close`.
        """
        if self._closed:
            raise Fatal(f"The log of topic {self.topic} is closed already")
        if self._reader is None and self._is_light:
            self._reader = LogReader(self._connection, self.topic, self._positions)
        elif self._reader is None:
            self._reader = PartitionReader(
                self._connection, self.topic, self._positions, isolation=self._isolation, gather_ms=self._gather_ms
            )
        return self._reader.poll(timeout, limit)

    def follow(self, timeout: float, limit: int = 500, *, shown_bytes: int | None = None) -> list[LogRecord]:
        """`poll`, and set `ahead` if an open transaction blocks it: to the records committed behind that transaction.

        The caller takes the returned records first, then those in `ahead`. Raises `Retriable` if a broker does not
        answer; then `ahead` is unchanged.

        shown_bytes: given by a caller that needs `ahead` for display only. It gets so many bytes of it, and none if
        three seconds are not enough to read them.
        """
        records = self.poll(timeout, limit)
        if not self._is_held():
            return records
        self._still.clear()  # the next check, or the next attempt, is a second later
        seconds = _AHEAD_SECONDS if shown_bytes is None else _SHOWN_SECONDS
        ends, deadline = self._still_ends(), Deadline.after(seconds)
        stable = self._stable(ends, deadline)
        if not _has_passed(self.positions, stable):
            return records  # nothing blocks it: there is much to read, and the partitions take turns
        try:
            records += self.catch_up(deadline, limit=limit, most_bytes=shown_bytes)
        except Retriable:
            if shown_bytes is None or not deadline.expired:
                raise
            self._not_before = time.monotonic() + _AGAIN_SECONDS
        self._last_ends = ends
        return records

    def _still_ends(self) -> dict[int, int]:
        """Return the ends of the partitions that are not read to their end."""
        assert self._reader is not None
        positions = self._reader.positions
        return {p: end for p, end in self._reader.ends().items() if positions[p] < end}

    def _is_held(self) -> bool:
        """Return whether a partition has not moved for a while, before an end that has not been checked yet."""
        if self._isolation is Isolation.UNCOMMITTED or time.monotonic() < self._not_before:
            return False
        now, positions, behind = time.monotonic(), self.positions, self._still_ends()
        self._still = {
            p: entry if (entry := self._still.get(p)) and entry[0] == positions[p] else (positions[p], now)
            for p in behind
        }
        return any(
            now - since >= _HELD_SECONDS and behind[p] != self._last_ends.get(p)
            for p, (_, since) in self._still.items()
        )

    def read_to_end(self, deadline: Deadline, limit: int = 1000) -> Iterator[LogRecord]:
        """Yield every committed record before the current end, in order, each once over all calls.

        This waits for every open transaction, so do not use it during a start. Raises `Retriable` if the end is not
        reached in time, with the progress in the message.
        """
        ends = self.request_ends(deadline)
        yield from self._read_committed(ends, deadline, deadline, lambda: False, limit, every_key, _untold)
        if not _has_passed(self.positions, ends):
            raise late(self.topic, self.positions, ends)

    def request_ends(self, deadline: Deadline) -> dict[int, int]:
        """Return the current ends. Raises `TopicLost` if the topic was replaced."""
        ends = end_offsets(self._connection, self.topic, self.partitions, deadline)
        self._check_identity(deadline)
        return ends

    def catch_up(
        self,
        deadline: Deadline,
        give_up: Callable[[], bool] = lambda: False,
        limit: int = 1000,
        *,
        own: int = -1,
        key_filter: KeyFilter = every_key,
        ends: Positions | None = None,
        report: OnProgress = _untold,
        most_bytes: int | None = None,
    ) -> Iterator[LogRecord]:
        """Yield every committed record up to the LSO or the current end, then set `ahead` to those up to the end.

        Afterwards, `positions` are at the LSO or at the end. Raises `Retriable` if the end is not reached in time, with
        the progress in the message.

        give_up: called between reads; returns True to stop early, with an empty `ahead`. own: a producer id, for whose
        markers the read waits. key_filter: takes a key; records for which it returns False are left out. ends: the
        current ends, if the caller has just requested them. report: called with positions and ends between reads.
        most_bytes: of `ahead`; None for no limit.
        """
        if ends is None:
            ends = self.request_ends(deadline)
        patience = Deadline.after(self._patience_s)
        yield from self._read_committed(ends, deadline, patience, give_up, limit, key_filter, report)
        behind = {p: position for p, position in self.positions.items() if position < ends[p]}
        if not behind or give_up():
            self.ahead = []
            return
        self.ahead = OpenTail(self._connection, self.topic, self.partitions).read(
            behind, ends, deadline, own, key_filter, most_bytes
        )
        report(ends, ends)

    def _read_committed(
        self,
        ends: Positions,
        deadline: Deadline,
        patience: Deadline,
        give_up: Callable[[], bool],
        limit: int,
        key_filter: KeyFilter,
        report: OnProgress,
    ) -> Iterator[LogRecord]:
        """Read up to the ends, or up to an LSO before them that has stopped moving when `patience` expires."""
        reader: _Reader | None = None
        positions = self.positions
        try:
            while not _has_passed(positions, ends):
                stable = self._stable(ends, deadline)
                if _has_passed(positions, stable):
                    if patience.expired or give_up():
                        return
                    time.sleep(patience.slice(MARKER_SECONDS))
                    continue
                reader = reader or self._open_fast_reader(positions, stable)
                positions = reader.positions
                stall_deadline = Deadline.after(_STALL_SECONDS)
                while not _has_passed(positions, stable):
                    self._check(positions, ends, deadline)
                    # If compaction has removed the last records of a segment, the client would wait for them forever.
                    if give_up() or (stall_deadline.expired and patience.expired):
                        return
                    before = sum(positions.values())
                    yield from reader.poll(deadline.slice(0.1), limit, key_filter)
                    positions = reader.positions
                    report(positions, ends)
                    if sum(positions.values()) > before:
                        stall_deadline = Deadline.after(_STALL_SECONDS)
        finally:
            if reader is not None and reader is not self._reader:
                self._move(reader.positions)
                reader.close()

    def _open_fast_reader(self, positions: Positions, ends: Positions) -> _Reader:
        """Return a reader of what is there. It is another one where `poll` reads with a client of librdkafka: only an
        empty response moves that one's position past the last marker, and the broker delays it by half a second.
        """
        if not _is_short(positions, ends):
            return PartitionReader(
                self._connection, self.topic, positions, isolation=self._isolation, fetch_wait_ms=FETCH_WAIT_MS
            )
        if self._is_light and self._reader is not None:
            return self._reader
        reader = LogReader(self._connection, self.topic, positions, isolation=self._isolation)
        if self._is_light and self._keep_reader:
            self._reader = reader
        return reader

    def _stable(self, ends: Positions, deadline: Deadline) -> Positions:
        """Return how far a client with this isolation level can read now, at most the ends."""
        if self._isolation is Isolation.UNCOMMITTED:
            return ends
        stable = offsets_at(self._connection, self.topic, list(ends), OffsetKind.STABLE, deadline)
        return {p: min(stable[p], end) for p, end in ends.items()}

    def _check(self, positions: Positions, ends: Positions, deadline: Deadline) -> None:
        if deadline.expired:
            raise late(self.topic, positions, ends)

    def _check_identity(self, deadline: Deadline) -> None:
        """Raise `TopicLost` if the topic was replaced. Called after the ends are requested, which then belong to it."""
        topic_id, _ = topic_identity(self._connection, self.topic, Deadline.after(deadline.slice(5.0)))
        if topic_id != self.topic_id:
            raise TopicLost(
                f"Topic {self.topic} is no longer the same topic (id {topic_id}, it was {self.topic_id}): nothing that "
                "is read from it now says anything about the cluster"
            )

    def close(self) -> None:
        """Close the client."""
        self._closed = True
        if self._reader is not None:
            self._reader.close()


def _has_passed(positions: Positions, ends: Positions) -> bool:
    return all(positions[partition] >= end for partition, end in ends.items())
