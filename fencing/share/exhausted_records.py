"""Records that a task gives up without another try: each becomes a dead letter in the next transaction."""

import logging
from collections.abc import Callable, Iterable

from ringfence.connectors import api
from ringfence.fencing.share.input_record import ShareRecord
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
