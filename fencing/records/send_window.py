"""Limits how much of a transaction waits in the producer, so that librdkafka's broker thread can sleep.

librdkafka (2.16.0) has one Produce request of more than five records in flight for each partition, because it compares
the number of records in flight with its limit of five requests. If another batch is complete while it waits for the
response, the broker's thread does not sleep but asks again and again. Transactions of 2,048 records of 1,500 bytes cost
7 us of CPU a record that way. If each batch is delivered before the next one is produced, they cost 2 us, and are no
slower.

Partitions have a request each. So the window grows to a batch for each of them if deliveries are slow, that is, if the
network's latency rather than the processor sets the pace.
"""

from collections.abc import Callable
from typing import Final

RECORD_OVERHEAD: Final = 36
"""The most bytes that librdkafka counts for a record beside its key, value and headers."""
_FILL: Final = 0.95
"""Of a batch, since sizes are averages: a remainder would be a batch of its own."""
_SMALL_BYTES: Final = 512
"""Below this, waiting saves less than it costs: with 100 bytes a sixth of the records/s."""
_TOLERANCE: Final = 1.25
_SLOW_SECONDS: Final = 0.03


class SendWindow:
    """How many bytes may be produced before all of them have to be delivered."""

    def __init__(
        self,
        batch_bytes: int,
        deliver: Callable[[], None],
        count_partitions: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        """batch_bytes: the producer's `batch.size`. deliver: returns when nothing is queued, or raises.
        count_partitions: returns the number of partitions that the records go to.
        """
        self._smallest = self._size = batch_bytes * _FILL
        self._left, self._queued = self._size, False
        self._deliver = deliver
        self._count_partitions = count_partitions
        self._monotonic = monotonic

    def admit(self, records: int, average: float) -> int:
        """Return how many of these records may be produced now. If no other one fits, first wait for all deliveries.

        A few more than fit are admitted, because waiting with a small rest gains nothing. Small records are always
        admitted: processing them takes longer than a response, and overlaps with it.
        """
        if average < _SMALL_BYTES:
            return records
        if self._left < average and self._queued:
            self._await_deliveries()
        fit = max(1, int(self._left / average))
        admitted = records if records <= fit * _TOLERANCE else fit
        self._left -= admitted * average
        self._queued = True
        return admitted

    def empty(self) -> None:
        """Wait until everything is delivered."""
        self._deliver()
        self.reset()

    def _await_deliveries(self) -> None:
        start = self._monotonic()
        self._deliver()
        slow = self._monotonic() - start > _SLOW_SECONDS
        size = self._size * 2 if slow else self._size / 2
        largest = self._smallest * self._count_partitions() if slow else size
        self._size = max(self._smallest, min(size, largest))
        self.reset()

    def reset(self) -> None:
        """Begin again: nothing is queued."""
        self._left, self._queued = self._size, False
