"""The sweep: every record that nobody has committed is read from its topic, and goes the way of all others.

A share group forgets: records that were delivered too often are archived, an offset that somebody moves skips some, a
group may be deleted. Nothing that it says tells which. What the ledger has not had after a while is read here, up to
the last stable offset; offsets that hold no record (markers, aborted and compacted records) are noted as done.
"""

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ringfence.connectors.api import ConnectorError
from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.kafka.admin import Place, offsets_at
from ringfence.fencing.kafka.consumer import PartitionReader
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.offsets.ledger_keys import InputPartition
from ringfence.fencing.share.claims import SlotClaims
from ringfence.fencing.share.input_topics import InputTopics
from ringfence.fencing.share.ledger_records import State
from ringfence.fencing.share.ledger_tail import LedgerTail
from ringfence.fencing.share.ranges import Ranges
from ringfence.fencing.share.records import ShareRecord
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord

log = logging.getLogger(__name__)

_MOST = 500
_READ_S = 1.0
_SECONDS = 10.0
_MANY_GAPS = 50
"""So many ranges without a commit are looked at at once: they may be markers, which the ledger would carry along."""
_GAP_LOOK_S = 5.0


@dataclass(slots=True)
class _Watched:
    """history: (time, how far commits had come, the last stable offset), oldest first."""

    history: deque[tuple[float, int, int]] = field(default_factory=deque)
    scanned_at: float = 0.0


class Sweep:
    """One task's: it sweeps the partitions that `mine` gives it; that two tasks sweep the same one does no harm."""

    def __init__(
        self,
        connection: Connection,
        topics: InputTopics,
        tail: LedgerTail,
        claims: SlotClaims,
        after_s: float,
        mine: Callable[[InputPartition], bool],
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._topics = topics
        self._tail = tail
        self._claims = claims
        self._after_s = after_s
        self._every_s = min(2.0, after_s / 4)
        self._mine = mine
        self._clock = clock
        self._watched: dict[InputPartition, _Watched] = {}
        self._looked_at = clock.monotonic()
        self._readers: dict[str, PartitionReader] = {}
        self._due: deque[tuple[str, InputPartition, Ranges, int]] = deque()
        self._wanted: SweepRequestRecord | None = None
        self._wanted_ranges: dict[InputPartition, Ranges] = {}
        self.swept = 0
        self.expired = 0

    def restart(self, tail: LedgerTail) -> None:
        """The ledger is read by another one."""
        self._tail = tail
        self._due.clear()
        self._note_wanted()

    def follow(self, wanted: SweepRequestRecord | None) -> None:
        """Look at these offsets with the next look, whatever time has passed."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._note_wanted()

    def _note_wanted(self) -> None:
        self._wanted_ranges = {}
        for topic_id, partition, first, last in () if self._wanted is None else self._wanted.places or ():
            tp = InputPartition(topic_id, partition)
            if self._mine(tp):
                self._wanted_ranges.setdefault(tp, Ranges()).add(first, last)
        if self._wanted_ranges:
            self._looked_at = -math.inf

    def look(self) -> list[ShareRecord]:
        """Records that are due, of one partition. Raises `FencingError`, `ConnectorError`."""
        now = self._clock.monotonic()
        if not self._due and now - self._looked_at >= self._every_s:
            self._looked_at = now
            for topic, tp in self._topics.partitions():
                if self._mine(tp) and self._claims.is_known(tp):
                    self._watch(topic, tp, now)
        while self._due:
            topic, tp, missing, due_end = self._due[0]
            found, read_to = self._read(topic, tp, missing, due_end)
            if read_to >= missing.end:
                self._due.popleft()
            else:
                missing.drop_below(read_to)
            if found:
                self.swept += len(found)
                log.info("%d records of %s-%d were not committed in time and are read again", len(found), topic, tp[1])
                return found
            if read_to < missing.end:
                break
        return []

    def _watch(self, topic: str, tp: InputPartition, now: float) -> None:
        number = [tp.partition]
        limit = Deadline.after(_SECONDS, self._clock)
        stable = offsets_at(self._connection, topic, number, Place.STABLE, limit)[tp.partition]
        first = offsets_at(self._connection, topic, number, Place.FIRST, limit)[tp.partition]
        with self._tail.changed:
            state = self._claims.find_committed(tp)
        if stable < state.low and self._topics.is_same([topic]):
            raise ConnectorError(
                f"Partition {tp.partition} of topic {topic} ends at offset {stable}, but was processed up to "
                f"{state.low}: it was cut short. What it holds from there on may be other records under old offsets. "
                "To read it again, stop the connector and alter or reset its offsets"
            )
        if first > state.low:
            self._pass_expired(topic, tp, state.done, state.low, first)
        front = max(state.done.end, state.low)
        self._schedule_wanted(topic, tp, state, first, stable)
        watched = self._watched.setdefault(tp, _Watched(scanned_at=now))
        watched.history.append((now, front, stable))
        while len(watched.history) > 1 and watched.history[1][0] <= now - self._after_s:
            watched.history.popleft()
        since, old_front, old_stable = watched.history[0]
        due_end = 0
        if since <= now - self._after_s:
            due_end = old_stable if front == old_front else old_front
        missing = Ranges(state.done.missing(max(state.low, first), max(front, due_end) - 1))
        due = missing.meets(0, due_end - 1)
        many = len(missing) > _MANY_GAPS or (len(missing) > 0 and now - watched.scanned_at > _GAP_LOOK_S)
        if due or many:
            watched.scanned_at = now
            self._due.append((topic, tp, missing, due_end))

    def _schedule_wanted(self, topic: str, tp: InputPartition, state: State, first: int, stable: int) -> None:
        """What is asked for and not done: once, or what the plugin gives back would come again and again."""
        asked = self._wanted_ranges.pop(tp, None)
        if asked is None:
            return
        left = Ranges()
        for start, last in asked:
            low, end = max(start, first, state.low), min(last, stable - 1)
            left.update(Ranges(state.done.missing(low, end)))
        if left:
            self._due.append((topic, tp, left, left.end))

    def _pass_expired(self, topic: str, tp: InputPartition, done: Ranges, low: int, first: int) -> None:
        gone = list(done.missing(low, first - 1))
        count = sum(last - start + 1 for start, last in gone)
        self.expired += count
        log.warning(
            "%d offsets of partition %d of topic %s expired, or were deleted, before they were processed: the topic "
            "begins at %d. Give it a longer retention",
            count,
            tp.partition,
            topic,
            first,
        )
        for start, last in gone:
            self._claims.note(tp, start, last)

    def _read(self, topic: str, tp: InputPartition, missing: Ranges, due_end: int) -> tuple[list[ShareRecord], int]:
        """The records that are due, and up to where everything is known."""
        start = next(iter(missing))[0]
        reader = self._reader(topic, tp.partition, start)
        until = self._clock.monotonic() + _READ_S
        found: list[ShareRecord] = []
        there = Ranges()
        while reader.positions[tp.partition] < missing.end and len(found) < _MOST and self._clock.monotonic() < until:
            for message in reader.messages(0.2, _MOST):
                offset = int(message.offset() or 0)
                if offset not in missing:
                    continue
                there.add(offset, offset)
                if offset < due_end:
                    found.append(ShareRecord(message, tp, locked=False))
        read_to = min(reader.positions[tp.partition], missing.end)
        if not self._topics.is_same([topic]):
            return [], start  # these may be another topic's; the next look knows
        for first, last in missing:
            for gap, end in there.missing(first, min(last, read_to - 1)):
                self._claims.note(tp, gap, end)
        return found, read_to

    def _reader(self, topic: str, partition: int, start: int) -> PartitionReader:
        reader = self._readers.get(topic)
        if reader is None:
            reader = self._readers[topic] = PartitionReader(
                self._connection, topic, {partition: start}, fetch_wait_ms=50
            )
        elif reader.positions.get(partition) != start:
            reader.move({partition: start})
        return reader

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
