"""Finds records that end their process each time they are tried, among those that only the sweep still reads.

A dead process cannot report the cause. So each try is noted in the ledger first, in a separate transaction. The first
two tries are together with other records; then the record is noted and tried alone, so that no other record is blamed.
A record is exhausted if it was tried alone up to the delivery limit, and was never committed.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable

from ringfence.connectors import api
from ringfence.fencing.share.input_topics import ShareRecord
from ringfence.fencing.share.ledger import ProcessedOffsets
from ringfence.fencing.share.settings import ExhaustionPolicy
from ringfence.fencing.transactions.client import Produce
from ringfence.fencing.transactions.record_columns import Record

log = logging.getLogger(__name__)

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
