"""Gives batches to a task's producer, and waits inside a transaction until it has delivered them: see `SendWindow`."""

from collections.abc import Callable, Set

from ringfence.connectors.api.records import EncodedBatches
from ringfence.fencing.kafka.batch_sender import BatchSender
from ringfence.fencing.kafka.error_translation import kafka_errors
from ringfence.fencing.kafka.produce_errors import produce_errors
from ringfence.fencing.kafka.producer_interface import TaskClient
from ringfence.fencing.offsets.source_offsets import Partition
from ringfence.fencing.records.prepared_batch import GatheredOffsets, PreparedBatch
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.records.send_window import SendWindow
from ringfence.fencing.task.record_positions import Positions
from ringfence.fencing.task.runtime import TaskRuntime

_FLUSH_S = 0.1
_MOST_OFFSETS = 16
"""Of a batch with more source partitions, librdkafka alone adds the other offsets' partitions."""


class BatchDeliveries:
    """The window of a task's producers, one after another. `topics`: those of the open transaction."""

    def __init__(
        self,
        producer: TaskClient,
        batch_bytes: int,
        runtime: TaskRuntime,
        key_of_offset: Callable[[Partition], tuple[str, bytes]],
    ) -> None:
        """key_of_offset: returns the topic and the key of the record with a source partition's offset."""
        self.producer = producer
        self._key_of_offset = key_of_offset
        self._sender: BatchSender | None = None
        self.topics: Set[str] = frozenset()
        self.window = SendWindow(batch_bytes, self._deliver, self._count_partitions, runtime.clock.monotonic)
        self._stopping = runtime.require_current
        self._partitions: tuple[Set[str], int] = frozenset(), 1

    def send(
        self, ready: PreparedBatch, path: RecordPath, offsets: GatheredOffsets, positions: Positions | None
    ) -> int:
        """Return the number of records sent. Raises `FencingError`."""
        if isinstance(ready.batch, EncodedBatches):
            if ready.batch.batches:
                self._sender = self.producer.sender
                self._sender.send(ready.batch.batches, self._stopping, self._offset_keys(ready))
            path.note_sent(ready, offsets)
            return len(ready.batch)
        produce = self.producer.produce if positions is None else positions.noting(self.producer.produce)
        with produce_errors(self.producer, "producing"):
            return path.send(ready, produce, self.make_room, offsets, self.window)

    def _offset_keys(self, ready: PreparedBatch) -> list[tuple[str, bytes]]:
        return [self._key_of_offset(partition) for partition, _ in ready.offsets[:_MOST_OFFSETS]]

    def await_adding(self) -> None:
        """Wait until the partitions of sent batches are in the transaction, before librdkafka adds others."""
        if self._sender is not None:
            self._sender.await_adding(self._stopping)

    def make_room(self) -> None:
        """Wait a moment for deliveries, because the producer's queue is full."""
        with kafka_errors("producing"):
            self.producer.serve(0.02)
        self._stopping()

    def count_partitions(self, topic: str) -> int:
        """Return how many partitions the topic has, which the brokers may create."""
        return self.producer.sender.count_partitions(topic, self._stopping)

    def _deliver(self) -> None:
        """Wait until nothing is queued. What has failed is reported by the next call of the producer."""
        while self.producer.flush(_FLUSH_S):
            self._stopping()

    def _count_partitions(self) -> int:
        """Return the number of partitions that the open transaction writes to. A broker is asked once."""
        if self._partitions[0] != self.topics:
            self._partitions = frozenset(self.topics), self.producer.count_partitions(self.topics)
        return self._partitions[1]
