"""The sweep: reads records that no task has committed from their topic, so that they are processed like all others.

A share group loses records: it archives those that were delivered too often, a user may move its offset past some, and
a group may be deleted. It does not report which ones. The sweep reads what is missing in the ledger after a while, up
to the last stable offset. Offsets without a record (markers, aborted and compacted records) are noted as done.

Records that end their process each time they are tried are found among those that only the sweep still reads. A dead
process cannot report the cause. So each try is noted in the ledger first, in a separate transaction. The first
two tries are together with other records; then the record is noted and tried alone, so that no other record is blamed.
A record is exhausted if it was tried alone up to the delivery limit, and was never committed.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ringfence.connectors import api
from ringfence.connectors.api import ConnectorError
from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import PartitionReader
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at
from ringfence.fencing.offsets.ledger_keys import InputPartition
from ringfence.fencing.share.input_topics import InputTopics, ShareRecord
from ringfence.fencing.share.ledger import ProcessedOffsets, State
from ringfence.fencing.share.ledger_tail import LedgerTail
from ringfence.fencing.share.offset_ranges import Ranges
from ringfence.fencing.share.settings import ExhaustionPolicy
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord
from ringfence.fencing.transactions.client import Produce
from ringfence.fencing.transactions.record_columns import Record

MakeDeadLetter = Callable[[api.SourceRecord, str, Exception], Record]


class ExhaustedRecords:
    """Records that were tried alone up to the delivery limit, and were never committed."""

    def __init__(self, tries: int) -> None:
        """tries: how often each record was tried alone."""
        self._tries = tries
        self._records: list[ShareRecord] = []
        self.make_dead_letter: MakeDeadLetter = _refuse
        """Converts a record to a dead letter. Set by the run, since its error policy knows the topic."""

    def add(self, records: Iterable[ShareRecord]) -> None:
        self._records += records

    def clear(self) -> None:
        """Forget them: their transaction is committed, or they will be found again."""
        self._records = []

    def produce(self, produce: Produce) -> int:
        """Produce the dead letters into the open transaction. Returns how many there are."""
        for record in self._records:
            self._produce(record, produce)
        return len(self._records)

    def _produce(self, record: ShareRecord, produce: Produce) -> None:
        place: dict[str, object] = {"topic": record.topic, "partition": record.partition}
        at, when = {"offset": record.offset}, record.timestamp_ms
        source_record = api.SourceRecord(place, at, record.topic, record.value, record.key, record.headers, when)
        error = api.ConnectorError(
            f"The record at offset {record.offset} of partition {record.partition} of topic {record.topic} was tried "
            f"alone {self._tries} times. Each time its task ended without an error: it may need too much memory or time"
        )
        log.warning("%s. It is a dead letter now", error)
        produce(*self.make_dead_letter(source_record, "ShareSource", error))


def _refuse(record: api.SourceRecord, by: str, error: Exception) -> Record:
    raise error


_TOGETHER = 2


class Suspects:
    """The suspects of one process, which notes each try only once."""

    def __init__(self, offsets: ProcessedOffsets, tries: int, exhaustion: ExhaustionPolicy) -> None:
        """tries: the number of tries alone after which a record is exhausted."""
        self._offsets = offsets
        self._tries = tries + _TOGETHER
        self._exhaustion = exhaustion
        self._waiting: deque[ShareRecord] = deque()
        self._tried_records: list[ShareRecord] = []
        self._own_tries: set[tuple[object, int]] = set()

    def add(self, records: Iterable[ShareRecord]) -> None:
        """Add records that the sweep has found."""
        self._waiting.extend(records)

    def __bool__(self) -> bool:
        return bool(self._waiting or self._tried_records)

    def note(self) -> list[ShareRecord]:
        """Note the next tries in the open transaction. Return the exhausted records, which are not tried again."""
        while self._waiting and not self._tried_records:
            record = self._waiting.popleft()
            if self._offsets.is_done(record.tp, record.offset):
                continue
            times = self._offsets.find_tries(record.tp, record.offset)
            if (record.tp, record.offset) in self._own_tries:
                self._tried_records = [record]  # this process has survived it
            elif times >= self._tries and self._exhaustion is ExhaustionPolicy.DEAD_LETTER:
                return [record]
            else:
                self._count(record, times + 1)
                while times < _TOGETHER and self._waiting and self._find_times(self._waiting[0]) == times:
                    self._count(self._waiting.popleft(), times + 1)
        return []

    def _find_times(self, record: ShareRecord) -> int:
        return self._offsets.find_tries(record.tp, record.offset)

    def _count(self, record: ShareRecord, times: int) -> None:
        record.alone = times > _TOGETHER
        self._offsets.count_try(record.tp, record.offset, times)
        self._tried_records.append(record)

    def take(self) -> list[ShareRecord]:
        """Return the noted records, to try them now. Call it after the note is committed."""
        records, self._tried_records = self._tried_records, []
        self._own_tries.update((record.tp, record.offset) for record in records)
        return records

    def restart(self) -> None:
        """Forget records that were not tried yet. The sweep finds them again."""
        self._waiting.clear()
        self._tried_records.clear()


log = logging.getLogger(__name__)

_MOST = 500
_READ_S = 1.0
_SECONDS = 10.0
_MANY_GAPS = 50
"""With this many uncommitted ranges, the sweep starts at once: they may be markers, which enlarge the ledger."""
_GAP_LOOK_S = 5.0


@dataclass(slots=True)
class _PartitionHistory:
    """samples: (time, end of the committed offsets, last stable offset), oldest first."""

    samples: deque[tuple[float, int, int]] = field(default_factory=deque)
    scanned_at: float = 0.0


class Sweep:
    """The sweep of one task, over the partitions for which `mine` is true. Two tasks may sweep the same partition."""

    def __init__(
        self,
        connection: Connection,
        topics: InputTopics,
        tail: LedgerTail,
        offsets: ProcessedOffsets,
        after_s: float,
        mine: Callable[[InputPartition], bool],
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._topics = topics
        self._tail = tail
        self._offsets = offsets
        self._after_s = after_s
        self._every_s = min(2.0, after_s / 4)
        self._mine = mine
        self._clock = clock
        self._histories: dict[InputPartition, _PartitionHistory] = {}
        self._looked_at = clock.monotonic()
        self._readers: dict[str, PartitionReader] = {}
        self._due: deque[tuple[str, InputPartition, Ranges, int]] = deque()
        self._request: SweepRequestRecord | None = None
        self._wanted_ranges: dict[InputPartition, Ranges] = {}
        self.swept = 0
        self.expired = 0

    def restart(self, tail: LedgerTail) -> None:
        """Continue with another reader of the ledger."""
        self._tail = tail
        self._due.clear()
        self._note_wanted()

    def follow(self, request: SweepRequestRecord | None) -> None:
        """Read these offsets with the next `look`, without waiting until they are due."""
        if request != self._request:
            self._request = request
            self._note_wanted()

    def _note_wanted(self) -> None:
        self._wanted_ranges = {}
        for topic_id, partition, first, last in () if self._request is None else self._request.places or ():
            tp = InputPartition(topic_id, partition)
            if self._mine(tp):
                self._wanted_ranges.setdefault(tp, Ranges()).add(first, last)
        if self._wanted_ranges:
            self._looked_at = -math.inf

    def look(self) -> list[ShareRecord]:
        """Return the records of one partition that are due. Raises `FencingError`, `ConnectorError`."""
        now = self._clock.monotonic()
        if not self._due and now - self._looked_at >= self._every_s:
            self._looked_at = now
            for topic, tp in self._topics.partitions():
                if self._mine(tp) and self._offsets.is_known(tp):
                    self._watch(topic, tp, now)
        while self._due:
            topic, tp, missing, due_end = self._due[0]
            records, read_to = self._read(topic, tp, missing, due_end)
            if read_to >= missing.end:
                self._due.popleft()
            else:
                missing.drop_below(read_to)
            if records:
                self.swept += len(records)
                log.info(
                    "%d records of %s-%d were not committed in time and are read again", len(records), topic, tp[1]
                )
                return records
            if read_to < missing.end:
                break
        return []

    def _watch(self, topic: str, tp: InputPartition, now: float) -> None:
        number = [tp.partition]
        limit = Deadline.after(_SECONDS, self._clock)
        stable = offsets_at(self._connection, topic, number, OffsetKind.STABLE, limit)[tp.partition]
        first = offsets_at(self._connection, topic, number, OffsetKind.FIRST, limit)[tp.partition]
        with self._tail.condition:
            state = self._offsets.find_committed(tp)
        if stable < state.low and self._topics.is_same([topic]):
            raise ConnectorError(
                f"Partition {tp.partition} of topic {topic} ends at offset {stable}, but was processed up to "
                f"{state.low}: it was truncated. New records may have the offsets of lost ones. "
                "To read it again, stop the connector and alter or reset its offsets"
            )
        if first > state.low:
            self._pass_expired(topic, tp, state.done, state.low, first)
        front = max(state.done.end, state.low)
        self._schedule_wanted(topic, tp, state, first, stable)
        history = self._histories.setdefault(tp, _PartitionHistory(scanned_at=now))
        history.samples.append((now, front, stable))
        while len(history.samples) > 1 and history.samples[1][0] <= now - self._after_s:
            history.samples.popleft()
        since, old_front, old_stable = history.samples[0]
        due_end = 0
        if since <= now - self._after_s:
            due_end = old_stable if front == old_front else old_front
        missing = Ranges(state.done.missing(max(state.low, first), max(front, due_end) - 1))
        due = missing.meets(0, due_end - 1)
        many = len(missing) > _MANY_GAPS or (len(missing) > 0 and now - history.scanned_at > _GAP_LOOK_S)
        if due or many:
            history.scanned_at = now
            self._due.append((topic, tp, missing, due_end))

    def _schedule_wanted(self, topic: str, tp: InputPartition, state: State, first: int, stable: int) -> None:
        """Schedule the requested offsets that are not done: only once, since the plugin may release their records."""
        ranges = self._wanted_ranges.pop(tp, None)
        if ranges is None:
            return
        rest = Ranges()
        for start, last in ranges:
            low, end = max(start, first, state.low), min(last, stable - 1)
            rest.update(Ranges(state.done.missing(low, end)))
        if rest:
            self._due.append((topic, tp, rest, rest.end))

    def _pass_expired(self, topic: str, tp: InputPartition, done: Ranges, low: int, first: int) -> None:
        gaps = list(done.missing(low, first - 1))
        count = sum(last - start + 1 for start, last in gaps)
        self.expired += count
        log.warning(
            "%d offsets of partition %d of topic %s expired, or were deleted, before they were processed: the topic "
            "begins at %d. Give it a longer retention",
            count,
            tp.partition,
            topic,
            first,
        )
        for start, last in gaps:
            self._offsets.note(tp, start, last)

    def _read(self, topic: str, tp: InputPartition, missing: Ranges, due_end: int) -> tuple[list[ShareRecord], int]:
        """Return the records that are due, and the offset up to which everything is known."""
        start = next(iter(missing))[0]
        reader = self._reader(topic, tp.partition, start)
        until = self._clock.monotonic() + _READ_S
        records: list[ShareRecord] = []
        there = Ranges()
        while reader.positions[tp.partition] < missing.end and len(records) < _MOST and self._clock.monotonic() < until:
            for message in reader.messages(0.2, _MOST):
                offset = int(message.offset() or 0)
                if offset not in missing:
                    continue
                there.add(offset, offset)
                if offset < due_end:
                    records.append(ShareRecord(message, tp, locked=False))
        read_to = min(reader.positions[tp.partition], missing.end)
        if not self._topics.is_same([topic]):
            return [], start  # these may be another topic's records; the next look finds out
        for first, last in missing:
            for gap, end in there.missing(first, min(last, read_to - 1)):
                self._offsets.note(tp, gap, end)
        return records, read_to

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
