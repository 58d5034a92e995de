"""The batches of one partition: in order, whatever becomes of the requests that carry them. Pure.

The leader appends a batch only after the one with the sequence number before, and knows the last five of a producer: a
repeated one of these is written once. Hence the rules:

- from the first batch without an answer on, at most five are sent;
- a batch keeps its number when it is sent again;
- the first batch of an epoch is alone: a leader that does not know the producer takes any first number, and no earlier
  one after it.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

from ringfence.fencing.transactions.messages import Place
from ringfence.fencing.transactions.record_batches import SEQUENCES, RecordBatch

MOST_IN_FLIGHT: Final = 5
_SPAN: Final = 2**32


@dataclass(slots=True, eq=False)
class QueuedBatch:
    """number: its place in the queue's order; sequence: -1 until it is sent; deadline: when it has to be written.

    doubtful: whether a request that carried it had no answer. leads: whether all earlier ones were written when it was
    sent. refusals: those that count as `retries`. span: numbers from this on are for parts of it.
    """

    batch: RecordBatch
    number: int
    deadline: float
    sequence: int = -1
    head: bytes = b""
    failures: int = 0
    refusals: int = 0
    doubtful: bool = False
    leads: bool = False
    span: int = _SPAN


class PartitionQueue:
    """Times are those of a monotonic clock."""

    def __init__(self, topic: str, partition: int) -> None:
        self.place = topic, partition
        self.waiting: deque[QueuedBatch] = deque()
        self.in_flight: list[QueuedBatch] = []
        self.not_before = 0.0
        self._opened = False
        self._ahead: list[int] = []  # the numbers of written batches that follow one without an answer
        self._next_number = 0
        self._next_sequence = 0

    @property
    def busy(self) -> bool:
        """Whether a batch is not written yet."""
        return bool(self.waiting or self.in_flight)

    def add(self, batch: RecordBatch, deadline: float) -> None:
        self.waiting.append(QueuedBatch(batch, self._next_number, deadline))
        self._next_number += _SPAN

    def can_send(self, now: float) -> bool:
        """Return whether the first waiting batch may be sent now."""
        if not self.waiting or now < self.not_before:
            return False
        first = self.waiting[0]
        ahead = len(self._ahead) if first.sequence < 0 else 0
        return len(self.in_flight) + ahead < self.most_in_flight

    @property
    def most_in_flight(self) -> int:
        return MOST_IN_FLIGHT if self._opened else 1

    def send(self, producer_id: int, epoch: int) -> QueuedBatch:
        """Take the first waiting batch, which is on its way from now on."""
        first = self.waiting.popleft()
        if first.sequence < 0:
            first.sequence = self._next_sequence
            first.head = first.batch.head(producer_id, epoch, first.sequence)
            self._next_sequence = (self._next_sequence + first.batch.count) % SEQUENCES
        first.leads = not self.in_flight
        self.in_flight.append(first)
        return first

    def note_written(self, batch: QueuedBatch) -> None:
        """The leader has the batch."""
        self.in_flight.remove(batch)
        self._opened = True
        if self._ahead or self.in_flight or self.waiting:
            self._ahead.append(batch.number)
            unresolved = (*self.in_flight, *(each for each in self.waiting if each.sequence >= 0))
            first = min((each.number for each in unresolved), default=inf)
            self._ahead = [number for number in self._ahead if number > first]

    def put_back(self, batch: QueuedBatch, not_before: float) -> None:
        """Send the batch again, in its order."""
        self.in_flight.remove(batch)
        batch.failures += 1
        self.not_before = max(self.not_before, not_before)
        later = len(self.waiting)
        while later and self.waiting[later - 1].number > batch.number:
            later -= 1
        self.waiting.insert(later, batch)

    def replace(
        self, batch: QueuedBatch, halves: tuple[RecordBatch, RecordBatch], producer_id: int, epoch: int
    ) -> None:
        """Send two batches in place of one that was refused. They have its sequence numbers."""
        self.put_back(batch, 0.0)
        at = self.waiting.index(batch)
        del self.waiting[at]
        sequence, span = batch.sequence, batch.span // 2
        for number, half in enumerate(halves):
            head = half.head(producer_id, epoch, sequence)
            place = batch.number + number * span
            one = QueuedBatch(half, place, batch.deadline, sequence, head, doubtful=batch.doubtful, span=span)
            self.waiting.insert(at + number, one)
            sequence = (sequence + half.count) % SEQUENCES

    @property
    def earliest_deadline(self) -> float:
        """When a batch has to be written; infinite if there is none."""
        return min((each.deadline for each in (*self.in_flight, *self.waiting)), default=inf)

    def drop(self) -> None:
        """Forget all batches."""
        self.waiting.clear()
        self.in_flight.clear()
        self._ahead.clear()
        self.not_before = 0.0

    def restart(self) -> None:
        """Begin a new epoch: its numbers start at 0."""
        self.drop()
        self._opened = False
        self._next_sequence = 0


class PartitionQueues:
    """The queues of all partitions. `busy`: those with a batch that is not written yet."""

    def __init__(self, delivery_s: float, new_queue: Callable[[str, int], PartitionQueue] = PartitionQueue) -> None:
        """delivery_s: how long a batch may take."""
        self.busy: dict[Place, PartitionQueue] = {}
        self.next_deadline = inf
        self._queues: dict[Place, PartitionQueue] = {}
        self._delivery_s = delivery_s
        self._new_queue = new_queue

    def __getitem__(self, place: Place) -> PartitionQueue:
        return self._queues[place]

    def batches(self) -> Iterator[QueuedBatch]:
        """Yield the batches that are not written yet."""
        for queue in self.busy.values():
            yield from queue.in_flight
            yield from queue.waiting

    @property
    def records(self) -> int:
        """The number of records that are not written yet."""
        return sum(each.batch.count for each in self.batches())

    @property
    def bytes(self) -> int:
        """The size of the batches that are not written yet."""
        return sum(each.batch.size for each in self.batches())

    @property
    def doubtful(self) -> bool:
        """Whether a copy of a batch that is not written yet may still arrive."""
        return any(each.doubtful for each in self.batches())

    def add(self, place: Place, batch: RecordBatch, now: float) -> None:
        queue = self._queues.get(place)
        if queue is None:
            queue = self._queues[place] = self._new_queue(*place)
        deadline = now + self._delivery_s
        queue.add(batch, deadline)
        self.next_deadline = min(self.next_deadline, deadline)
        self.busy[place] = queue

    def note_written(self, place: Place, batch: QueuedBatch) -> None:
        """The leader has the batch."""
        queue = self._queues[place]
        queue.note_written(batch)
        if not queue.busy:
            self.busy.pop(place, None)

    def find_late(self, now: float) -> Place | None:
        """Return a partition with a batch that should have been written by now."""
        if now < self.next_deadline:
            return None
        deadlines = {place: queue.earliest_deadline for place, queue in self.busy.items()}
        self.next_deadline = min((each for each in deadlines.values() if each > now), default=inf)
        return next((place for place, deadline in deadlines.items() if now >= deadline), None)

    def drop(self) -> None:
        """Forget all batches."""
        for queue in self.busy.values():
            queue.drop()
        self.busy.clear()

    def restart(self) -> None:
        """Begin a new epoch. Batches that waited for it stay."""
        for queue in self._queues.values():
            waiting = list(queue.waiting)
            queue.restart()
            for each in waiting:
                queue.add(each.batch, each.deadline)
