"""What a source task hands over: single records, or a batch of ready bytes."""

from collections.abc import Sequence

from ringfence.connectors.api.offsets import SourceOffset, SourcePartition
from ringfence.connectors.api.schemas import Schema

RawHeaders = Sequence[tuple[str, bytes | None]]
"""Headers of one record, as they go into the topic."""


class SourceRecord:
    """One record on its way to Kafka.

    A plain class with `__slots__`: it is created once a record on the hot path, where a frozen dataclass costs 1.6
    times as much. Treat it as immutable once handed over.

    topic: the Kafka topic; value, key: what the connector's converters take (with `ByteArrayConverter`, bytes);
    key_schema, value_schema: what key and value are, None for plain Python values; headers: (name, value) pairs, with
    a `SchemaAndValue` for a value that has a schema; timestamp: milliseconds since the epoch, None for the time of
    writing;
    partition: the Kafka partition, None lets the producer's partitioner choose;
    source_partition, source_offset: where the source stands after this record; None deletes the partition's offset.
    """

    __slots__ = (
        "headers",
        "key",
        "key_schema",
        "partition",
        "source_offset",
        "source_partition",
        "timestamp",
        "topic",
        "value",
        "value_schema",
    )

    def __init__(
        self,
        source_partition: SourcePartition,
        source_offset: SourceOffset | None,
        topic: str,
        value: object,
        key: object = None,
        headers: Sequence[tuple[str, object]] = (),
        timestamp: int | None = None,
        partition: int | None = None,
        key_schema: Schema | None = None,
        value_schema: Schema | None = None,
    ) -> None:
        self.source_partition = source_partition
        self.source_offset = source_offset
        self.topic = topic
        self.value = value
        self.key = key
        self.headers = headers
        self.timestamp = timestamp
        self.partition = partition
        self.key_schema = key_schema
        self.value_schema = value_schema

    def copy(self) -> "SourceRecord":
        """A record of its own that says the same: what changes a record changes a copy of it."""
        return SourceRecord(
            self.source_partition,
            self.source_offset,
            self.topic,
            self.value,
            self.key,
            self.headers,
            self.timestamp,
            self.partition,
            self.key_schema,
            self.value_schema,
        )

    def __repr__(self) -> str:
        return f"SourceRecord(topic={self.topic!r}, key={self.key!r}, source_offset={self.source_offset!r})"


class OffsetRecord(SourceRecord):
    """Moves a source partition on where there is nothing to write: its offset is committed, and no record is (KIP-910).

    `poll` returns it among other records, in its place. Neither transforms nor converters see it. Use it for what a
    source has read and left out, so that it need not be read again: a heartbeat, a page without rows, a finished file.
    """

    __slots__ = ()

    def __init__(self, source_partition: SourcePartition, source_offset: SourceOffset | None) -> None:
        super().__init__(source_partition, source_offset, "", None)


class RecordBatch:
    """The fast path: many records of one source partition for one topic, as ready bytes.

    values: one item a record, already in the form that the topic shall hold (None: a tombstone); keys, timestamps
    (milliseconds since the epoch; 0 or less: the time of writing) and headers (bytes, ready too): None, or one item a
    value; source_offset: the position after the last value. Legal only where `SourceTaskContext.raw_batches` is true,
    that is where neither a converter nor a transform would change the bytes; the framework refuses it elsewhere.
    """

    __slots__ = (
        "headers",
        "keys",
        "partition",
        "source_offset",
        "source_partition",
        "timestamps",
        "topic",
        "values",
    )

    def __init__(
        self,
        source_partition: SourcePartition,
        source_offset: SourceOffset,
        topic: str,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        partition: int | None = None,
        timestamps: Sequence[int] | None = None,
        headers: Sequence[RawHeaders | None] | None = None,
    ) -> None:
        for what, given in (("keys", keys), ("timestamps", timestamps), ("headers", headers)):
            if given is not None and len(given) != len(values):
                raise ValueError(
                    f"a batch of {len(values)} values has {len(given)} {what}: give one item a value, or None for all"
                )
        self.source_partition = source_partition
        self.source_offset = source_offset
        self.topic = topic
        self.values = values
        self.keys = keys
        self.partition = partition
        self.timestamps = timestamps
        self.headers = headers

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"RecordBatch(topic={self.topic!r}, {len(self.values)} records, source_offset={self.source_offset!r})"


class MixedBatch(RecordBatch):
    """Ready bytes for many topics, of many source partitions: what a framework hands over, such as Kafka Connect's.

    offsets: the newest of each source partition, also where all of its records were dropped, so a batch may have
    offsets and no record; topics: one name for all, or one a value; partitions: one a value, -1 for any; skipped,
    letters: records that errors.tolerance left out, and how many of them are in the batch as dead letters.
    """

    __slots__ = ("letters", "offsets", "partitions", "skipped", "topics")

    def __init__(
        self,
        offsets: Sequence[tuple[SourcePartition, SourceOffset | None]],
        topics: str | Sequence[str],
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        partitions: Sequence[int] | None = None,
        timestamps: Sequence[int] | None = None,
        headers: Sequence[RawHeaders | None] | None = None,
        *,
        skipped: int = 0,
        letters: int = 0,
    ) -> None:
        partition, offset = offsets[-1] if offsets else ({}, None)
        topic = topics if isinstance(topics, str) else next(iter(topics), "")
        super().__init__(partition, offset or {}, topic, values, keys, None, timestamps, headers)
        self.offsets = offsets
        self.topics = topics
        self.partitions = partitions
        self.skipped = skipped
        self.letters = letters

    def __bool__(self) -> bool:
        return bool(self.values) or bool(self.offsets)
