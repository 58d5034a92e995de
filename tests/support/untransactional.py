"""A producer without transactions in the place of a transactional one: what it writes is visible at once."""

from collections.abc import Callable, Sequence

from confluent_kafka import Producer

from ringfence.connectors.api.records import EncodedBatch, RawHeaders
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.transactions.record_columns import OnWritten, RecordColumns


class Untransactional:
    """Idempotent, and nothing more."""

    producer_id = epoch = -1
    transactions_v2 = False
    held_up = None

    def __init__(self, connection: Connection) -> None:
        settings = connection.librdkafka(enable_idempotence=True, linger_ms=0, partitioner="murmur2_random")
        self._producer = Producer(settings)
        self.spent = False
        self.waiting: Callable[[], None] = lambda: None

    def prepare(self, topics: Sequence[str], deadline: Deadline) -> None:
        """Has nothing to find out."""

    def init(self, deadline: Deadline) -> None:
        """Fences nobody."""

    def begin(self) -> None:
        """Begins nothing."""

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        timestamp: int = 0,
        headers: RawHeaders | None = None,
        on_written: OnWritten | None = None,
    ) -> None:
        assert on_written is None
        self._producer.produce(topic, value, key, partition)

    def produce_columns(self, columns: RecordColumns, on_written: Sequence[OnWritten | None] | None = None) -> None:
        for record in columns.records():
            self.produce(*record)

    def encode_ahead(self, columns: RecordColumns) -> None:
        """Encodes nothing."""

    def send_batches(self, batches: Sequence[EncodedBatch]) -> None:
        raise NotImplementedError

    def send_offsets(self, offsets: Sequence[tuple[str, int, int]], group_metadata: bytes, deadline: Deadline) -> None:
        raise NotImplementedError

    def count_partitions(self, topic: str) -> int:
        return 1

    def topic_id(self, topic: str) -> str:
        return ""

    def flush(self, seconds: float) -> int:
        return int(self._producer.flush(seconds))

    def commit(self, deadline: Deadline) -> None:
        self._producer.flush(deadline.remaining)

    def try_commit(self, seconds: float) -> bool:
        return False

    def abort(self, deadline: Deadline) -> bool:
        self._producer.flush(deadline.remaining)
        return True

    def close(self) -> None:
        self._producer.flush(30)
