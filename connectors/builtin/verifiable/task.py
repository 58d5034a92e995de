"""Counts 0, 1, 2, … at a given rate, from the number after the committed one.

Settings, and names in offsets, are the same as Kafka's.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from ringfence.connectors.api import (
    ConfigDef,
    ConfigType,
    ConnectorError,
    Importance,
    RecordBatch,
    SourceOffset,
    SourceRecord,
    SourceTask,
    Width,
)
from ringfence.connectors.api.schemas import INT32, INT64

logger = logging.getLogger(__name__)


ID: Final = "id"
"""The task's number: a key of its configuration, and of its source partition."""
SEQNO: Final = "seqno"
"""The key of the source offset: the last number that was delivered."""

CONFIG_DEF: Final = ConfigDef()
_settings: Final = CONFIG_DEF.group()

TOPIC: Final = _settings.text("topic", "The topic to write the numbers to.", width=Width.MEDIUM, display_name="Topic")
THROUGHPUT: Final = _settings.long(
    "throughput",
    "Records per second for each task; -1 for no limit, 0 for no records.",
    -1,
    -1,
    importance=Importance.HIGH,
    display_name="Throughput",
)
COMPLETE_RECORD_DATA: Final = _settings.flag(
    "complete.record.data",
    "Write connector, task, topic, time and number in each record, instead of the bare number.",
    False,
    importance=Importance.LOW,
    display_name="Complete record data",
)


MOST_AT_ONCE = 1000
LONGEST_WAIT_SECONDS = 0.5


class FixedRate:
    """Computes how many records are due at a fixed rate. A delay of more than a second is not caught up."""

    def __init__(self, per_second: int, now: float) -> None:
        self._per_second = per_second
        self._since = now
        self._issued = 0

    def due(self, now: float) -> int:
        """Return how many records may be delivered now, at most `MOST_AT_ONCE`; they count as delivered."""
        if self._per_second < 0:
            return MOST_AT_ONCE
        behind = (now - self._since) * self._per_second - self._issued
        if behind > self._per_second + 1:
            self._since, self._issued, behind = now - 1, 0, float(self._per_second)
        due = max(0, min(int(behind), MOST_AT_ONCE))
        self._issued += due
        return due

    def seconds_to_next(self, now: float) -> float:
        """Return the seconds until the next record is due, at most half a second."""
        if self._per_second == 0:
            return LONGEST_WAIT_SECONDS
        next_at = self._since + (self._issued + 1) / self._per_second
        return min(LONGEST_WAIT_SECONDS, max(0.0005, next_at - now))


class VerifiableSourceTask(SourceTask):
    """The key of each record is the task's number; the value is the count, or a struct with it."""

    version: ClassVar[str | None] = "1.0.0"

    def start(self, config: Mapping[str, str]) -> None:
        settings = CONFIG_DEF.parse(config)
        try:
            self._id = int(config[ID])
        except (KeyError, ValueError) as error:
            raise ConnectorError(f"The task's configuration has no number under {ID!r}.") from error
        self._name = config.get("name", "")
        self._topic = settings.string(TOPIC)
        self._complete = settings.boolean(COMPLETE_RECORD_DATA)
        self._partition = {ID: self._id}
        self._seqno = next_number(self.context.offset_reader.offset(self._partition))
        self._rate = FixedRate(settings.integer(THROUGHPUT), time.monotonic())
        logger.info("Counting from %d on, task %d, to topic %s", self._seqno, self._id, self._topic)

    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        due = self._rate.due(time.monotonic())
        if not due:
            # The next numbers come with the next poll: that there were none now says as of when the data is.
            self.context.wait(self._rate.seconds_to_next(time.monotonic()))
            return None
        numbers = range(self._seqno, self._seqno + due)
        self._seqno += due
        if self.context.raw_batches and not self._complete:
            key = b"%d" % self._id
            values = [b"%d" % number for number in numbers]
            return RecordBatch(self._partition, {SEQNO: numbers[-1]}, self._topic, values, [key] * due)
        return [
            SourceRecord(
                self._partition,
                {SEQNO: number},
                self._topic,
                self._value(number),
                self._id,
                key_schema=INT32,
                value_schema=None if self._complete else INT64,
            )
            for number in numbers
        ]

    def _value(self, number: int) -> object:
        if not self._complete:
            return number
        now = int(time.time() * 1000)
        return {"name": self._name, "task": self._id, "topic": self._topic, "time_ms": now, "seqno": number}


def next_number(offset: SourceOffset | None) -> int:
    """Return the number to count from. Raises `ConnectorError` for an offset that is not VerifiableSource's."""
    if offset is None:
        return 0
    seqno = offset.get(SEQNO)
    if not isinstance(seqno, int) or isinstance(seqno, bool) or seqno < 0:
        raise ConnectorError(
            f"The committed source offset {dict(offset)} has no {ConfigType.LONG} number under {SEQNO!r}. "
            "Stop the connector and alter or reset its offsets."
        )
    return seqno + 1
