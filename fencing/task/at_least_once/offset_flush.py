"""Source offsets without transactions: written in the background, one flush at a time (`offset.flush.*`).

Only offsets of acknowledged records are written (`fencing.task.at_least_once.submitted_records`), so a late or lost
offset only costs duplicates after a restart.
"""

import logging
from collections.abc import Sequence

from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.error_translation import kafka_errors
from ringfence.fencing.kafka.full_queue import QueueFull
from ringfence.fencing.kafka.idempotent_producer import IdempotentProducer
from ringfence.fencing.metrics import Measures
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffsets, encode_value
from ringfence.fencing.offsets.worker_copy import OffsetsCopy

log = logging.getLogger(__name__)

Offsets = Sequence[tuple[Partition, Offset | None]]


class _Flush:
    """A flush in progress."""

    def __init__(self, offsets: Offsets, started_at: float) -> None:
        self.offsets = offsets
        self.started_at = started_at
        self.waiting = len(offsets)
        self.failure: FencingError | None = None
        self.overdue = False

    def on_delivery(self, failure: FencingError | None) -> None:
        self.waiting -= 1
        self.failure = self.failure or failure


class OffsetFlush:
    """Writes offsets with its own producer. All methods are called on the task's thread."""

    def __init__(
        self,
        producer: IdempotentProducer,
        topic: str,
        offsets: SourceOffsets,
        measures: Measures,
        clock: Clock,
        *,
        timeout_s: float,
        copy: OffsetsCopy | None = None,
    ) -> None:
        """timeout_s: `offset.flush.timeout.ms`; a flush that takes longer counts as failed, and is still waited for.

        topic: the effective one; copy: to the worker's topic if that is another. `close` closes both clients.
        """
        self._producer = producer
        self._topic = topic
        self._offsets = offsets
        self._measures = measures
        self._clock = clock
        self._timeout_s = timeout_s
        self._copy = copy
        self._flush: _Flush | None = None

    @property
    def under_way(self) -> bool:
        """Whether a flush has begun and is not settled."""
        return self._flush is not None

    def begin(self, offsets: Offsets) -> None:
        """Pass the offsets to the producer. Settle the last flush first."""
        assert self._flush is None, "settle the last flush before the next"
        if self._copy is not None:
            self._copy.before(offsets)
        flush = self._flush = _Flush(offsets, self._clock.monotonic())
        room = Deadline.after(self._timeout_s, self._clock)

        def check() -> None:
            if room.expired:
                raise QueueFull("the producer's queue is full")

        produce = self._producer.reporting(flush.on_delivery, check)
        for partition, offset in offsets:
            try:
                with kafka_errors("writing source offsets"):
                    produce(self._topic, encode_value(offset), self._offsets.key_of(partition))
            except QueueFull as error:
                flush.on_delivery(error)

    def settle(self, seconds: float = 0.0) -> tuple[bool, Offsets] | None:
        """Return once whether the offsets were written, and the offsets; None if no flush ends within `seconds`.

        The caller writes failed offsets again with the next flush; the task need not stop.
        """
        flush = self._flush
        deadline = Deadline.after(seconds, self._clock)
        while flush is not None:
            self._producer.serve(min(0.05, max(0.0, deadline.remaining)))
            if flush.waiting == 0:
                break
            late = self._clock.monotonic() - flush.started_at >= self._timeout_s
            if late and not flush.overdue:
                flush.overdue = True
                self._measures.flush(flush.started_at, False, self._clock)
                log.warning(
                    "Source offsets were not written within offset.flush.timeout.ms (%g s); they still are under way. "
                    "Nothing is lost: what they cover would be read again after a restart",
                    self._timeout_s,
                )
            if deadline.expired:
                return None
        if flush is None:
            return None
        self._flush = None
        if not flush.overdue:
            self._measures.flush(flush.started_at, flush.failure is None, self._clock)
        if flush.failure is not None:
            log.warning("Source offsets could not be written, and are written again later: %s", flush.failure)
        elif self._copy is not None:
            self._copy.after(flush.offsets)
        return flush.failure is None, flush.offsets

    def close(self) -> None:
        """Close the clients, without waiting for what is not written yet."""
        self._producer.close()
        if self._copy is not None:
            self._copy.close()
