"""Waits, inside a transaction, until the producer has delivered what it was given: see `SendWindow`."""

from collections.abc import Set

from ringfence.fencing.kafka.protocols import TransactionalClient
from ringfence.fencing.records.send_window import SendWindow
from ringfence.fencing.task.runtime import TaskRuntime

_FLUSH_S = 0.1


class BatchDeliveries:
    """The window of a task's producers, one after another. `topics`: those of the open transaction."""

    def __init__(self, producer: TransactionalClient, batch_bytes: int, runtime: TaskRuntime) -> None:
        self.producer = producer
        self.topics: Set[str] = frozenset()
        self.window = SendWindow(batch_bytes, self._deliver, self._count_partitions, runtime.clock.monotonic)
        self._stopping = runtime.require_current
        self._partitions: tuple[Set[str], int] = frozenset(), 1

    def _deliver(self) -> None:
        """Wait until nothing is queued. What has failed is reported by the next call of the producer."""
        while self.producer.flush(_FLUSH_S):
            self._stopping()

    def _count_partitions(self) -> int:
        """Return the number of partitions that the open transaction writes to. A broker is asked once."""
        if self._partitions[0] != self.topics:
            self._partitions = frozenset(self.topics), self.producer.count_partitions(self.topics)
        return self._partitions[1]
