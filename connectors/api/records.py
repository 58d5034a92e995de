"""What a source task returns: single records, a batch of serialised ones, or structs of one schema by column; each with
its source partition and source offset, JSON objects that say what was read of a source, and how far.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Protocol, overload

from ringfence.connectors.api.schemas import Schema, SchemaType, Struct

SourcePartition = Mapping[str, object]
"""Names one independent stream of the source, e.g. `{"filename": "/data/flights.csv"}`. JSON values only."""

SourceOffset = Mapping[str, object]
"""A position in a source partition, e.g. `{"position": 1024}`. Whether it means the next record to read or the last one
read is up to the connector, which alone interprets it. JSON values only."""


class OffsetReader(Protocol):
    """Reads committed source offsets (KIP-618, "Source record offsets": read_committed, read to the end at start)."""

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """Return the committed offset of one source partition, or None if there is none yet."""
        ...

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """Return the committed offset of each partition, in the given order."""
        ...


RawHeaders = Sequence[tuple[str, bytes | None]]
"""The headers of one record, as the topic holds them."""


class SourceRecord:
    """One record on its way to Kafka.

    A plain class with `__slots__`: one is created for each record, and a frozen dataclass costs 1.6 times as much. Do
    not change it after you have returned it.

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
        """Return a copy. Transforms change copies, never the record itself."""
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
    """Commits the offset of a source partition without writing a record (KIP-910).

    `poll` returns it among other records, in order. Transforms and converters do not see it. Use it for data that the
    source skips, so that it is not read again: a heartbeat, a page without rows, a finished file.
    """

    __slots__ = ()

    def __init__(self, source_partition: SourcePartition, source_offset: SourceOffset | None) -> None:
        super().__init__(source_partition, source_offset, "", None)


UNREADABLE = Schema(SchemaType.BYTES, name="ringfence.Unreadable")
"""The `value_schema` of an `UnreadableRecord`."""


class UnreadableRecord(SourceRecord):
    """A row that cannot become a record, in its place among those that `poll` returns.

    The connector's `errors.tolerance` decides: `none` fails the task with `error`; `all` skips the row, and commits
    `source_offset`. value, key: what was read, as text, for the dead letter; transforms and converters do not see it.
    """

    __slots__ = ("error",)

    def __init__(
        self,
        source_partition: SourcePartition,
        source_offset: SourceOffset | None,
        topic: str,
        error: Exception,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
    ) -> None:
        super().__init__(source_partition, source_offset, topic, value, key, value_schema=UNREADABLE)
        self.error = error


SERIALIZED = Schema(SchemaType.BYTES, name="ringfence.Serialized")
"""The `value_schema` of `SerializedRecords`."""


class SerializedRecords(SourceRecord):
    """Consecutive records of one topic, with the bytes that the connector's converters would make of them.

    `poll` returns it as one item among other records. values, keys: one item for each record (None: a tombstone, no
    key); headers: those of each record; source_offset: the position after the last record. Allowed only if
    `SourceTaskContext.converters` is not None: the task makes the bytes itself, by these converters' rules.
    """

    __slots__ = ("keys", "values")
    headers: RawHeaders

    def __init__(
        self,
        source_partition: SourcePartition,
        source_offset: SourceOffset,
        topic: str,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None],
        headers: RawHeaders = (),
    ) -> None:
        super().__init__(source_partition, source_offset, topic, None, headers=headers, value_schema=SERIALIZED)
        self.values = values
        self.keys = keys

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"SerializedRecords(topic={self.topic!r}, {len(self)} records, source_offset={self.source_offset!r})"


class RecordBatch:
    """The fast path: many records of one source partition for one topic, already serialised.

    values: one item for each record, as the topic holds it (None: a tombstone); keys, timestamps (milliseconds since
    the epoch; 0 or less: the time of writing) and headers (bytes): None, or one item for each value; source_offset: the
    position after the last value. Allowed only if `SourceTaskContext.raw_batches` is true, that is, if neither a
    converter nor a transform would change the bytes; otherwise the framework refuses it.
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
        for what, items in (("keys", keys), ("timestamps", timestamps), ("headers", headers)):
            if items is not None and len(items) != len(values):
                raise ValueError(
                    f"a batch of {len(values)} values has {len(items)} {what}: give one item a value, or None for all"
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
    """Serialised records of many source partitions for many topics, as a framework such as Kafka Connect returns them.

    offsets: the newest of each source partition, even if all of its records were dropped, so a batch may have offsets
    and no records; topics: one name for all, or one for each value; partitions: one for each value, -1 for any;
    skipped, letters: how many records errors.tolerance left out, and how many of those the batch holds as dead letters.
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
        return len(self) > 0 or bool(self.offsets)


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """The records of a record batch in Kafka's format (version 2), without the batch's head.

    partition: -1 for any; records: their number; size: the bytes of their values; crc: the CRC-32C of `data`; first_ms,
    newest_ms: timestamps of the first and of the newest record, in milliseconds since the epoch; codec: of the format's
    compression codecs, the one that `data` has, 0 for none.
    """

    topic: str
    partition: int
    records: int
    size: int
    crc: int
    first_ms: int
    newest_ms: int
    data: bytes | memoryview
    codec: int = 0


class EncodedBatches(MixedBatch):
    """Record batches that another process has encoded, in place of single records.

    Batches of one topic and partition are written in this order.
    """

    __slots__ = ("batches",)

    def __init__(
        self,
        offsets: Sequence[tuple[SourcePartition, SourceOffset | None]],
        batches: Sequence[EncodedBatch],
        *,
        skipped: int = 0,
        letters: int = 0,
    ) -> None:
        super().__init__(offsets, [each.topic for each in batches], (), skipped=skipped, letters=letters)
        self.batches = batches

    def __len__(self) -> int:
        return sum(each.records for each in self.batches)


def count_records(batch: Sequence[SourceRecord] | RecordBatch) -> int:
    """Return the number of records in what `poll` has returned."""
    if isinstance(batch, RecordBatch | ColumnBatch):
        return len(batch)
    return len(batch) + sum(len(each) - 1 for each in batch if isinstance(each, SerializedRecords))


class ColumnBatch(Sequence[SourceRecord]):
    """The fast path for sources that read many values at once: a sequence of records, each created only when it is
    accessed. `ValueBatch` and `StructBatch` are its two kinds.

    `poll` may return it with any converters and transforms. If those can process many values at once, no object per
    record is created at all, which takes a third of the time.

    The records have one source partition, one topic and one schema. source_offset: the offset after the last record;
    offset_of(number): the offset after that record, counted from 0, in case not all are committed together;
    timestamps (milliseconds since the epoch, None for the time of writing): None, one for all, or one for each record;
    partition: the Kafka partition of all, None lets the producer's partitioner choose; keys, without schemas, and
    headers: None, or one item for each record.
    """

    __slots__ = (
        "_offset_of", "headers", "keys", "partition", "schema", "source_offset", "source_partition", "timestamps",
        "topic",
    )  # fmt: skip

    def __init__(
        self,
        source_partition: SourcePartition,
        source_offset: SourceOffset,
        topic: str,
        schema: Schema | None,
        offset_of: Callable[[int], SourceOffset],
        timestamps: int | Sequence[int | None] | None = None,
        partition: int | None = None,
        keys: Sequence[object] | None = None,
        headers: Sequence[Sequence[tuple[str, object]] | None] | None = None,
    ) -> None:
        self.source_partition = source_partition
        self.source_offset = source_offset
        self.topic = topic
        self.schema = schema
        self.timestamps = timestamps
        self.partition = partition
        self.keys = keys
        self.headers = headers
        self._offset_of = offset_of

    def times(self) -> list[int] | None:
        """Return each record's timestamp, 0 for the time of writing; None if that is all of theirs."""
        timestamps = self.timestamps
        if timestamps is None:
            return None
        if isinstance(timestamps, int):
            return [timestamps] * len(self)
        return [each or 0 for each in timestamps]

    def rows(self) -> list[Any]:
        """Return the values in a new list, which the caller may change; a struct as a new list of its fields."""
        raise NotImplementedError

    def _value(self, number: int) -> object:
        raise NotImplementedError

    def _values(self) -> Iterable[object]:
        raise NotImplementedError

    @overload
    def __getitem__(self, place: int) -> SourceRecord: ...
    @overload
    def __getitem__(self, place: slice) -> list[SourceRecord]: ...
    def __getitem__(self, place: int | slice) -> SourceRecord | list[SourceRecord]:
        if isinstance(place, slice):
            return [self._record(number) for number in range(*place.indices(len(self)))]
        return self._record(range(len(self))[place])

    def __iter__(self) -> Iterator[SourceRecord]:
        # Half the time of a call of `_record` for each.
        return map(
            SourceRecord,
            repeat(self.source_partition),
            chain(map(self._offset_of, range(len(self) - 1)), (self.source_offset,)),
            repeat(self.topic),
            self._values(),
            repeat(None) if self.keys is None else self.keys,
            repeat(()) if self.headers is None else [each or () for each in self.headers],
            repeat(self.timestamps) if isinstance(self.timestamps, int | None) else self.timestamps,
            repeat(self.partition),
            repeat(None),
            repeat(self.schema),
        )

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}(topic={self.topic!r}, {len(self)} records, source_offset={self.source_offset!r})"

    def _record(self, number: int) -> SourceRecord:
        return SourceRecord(
            self.source_partition,
            self.source_offset if number == len(self) - 1 else self._offset_of(number),
            self.topic,
            self._value(number),
            None if self.keys is None else self.keys[number],
            (None if self.headers is None else self.headers[number]) or (),
            self.timestamps if isinstance(self.timestamps, int | None) else self.timestamps[number],
            self.partition,
            value_schema=self.schema,
        )


class EncodedStrings(Sequence[str]):
    """Strings that are held as UTF-8, as they were read, and become `str` only for whoever looks at them.

    encoded: the bytes of each. What is not valid UTF-8 becomes surrogate escapes, which are written as the same bytes.
    """

    __slots__ = ("encoded",)

    def __init__(self, encoded: list[bytes]) -> None:
        self.encoded = encoded

    def __len__(self) -> int:
        return len(self.encoded)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> "EncodedStrings": ...
    def __getitem__(self, place: int | slice) -> "str | EncodedStrings":
        if isinstance(place, slice):
            return EncodedStrings(self.encoded[place])
        return self.encoded[place].decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        encoded = self.encoded
        # All at once, which takes a third of the time. No byte of another character is a line feed, valid or not.
        whole = b"\n".join(encoded)
        if encoded and whole.count(b"\n") == len(encoded) - 1:
            return iter(whole.decode("utf-8", "surrogateescape").split("\n"))
        return (each.decode("utf-8", "surrogateescape") for each in encoded)


class ValueBatch(ColumnBatch):
    """Values of one schema that is no struct's, or of none: lines, messages, documents.

    values: one for each record; they must fit the schema and are not checked. `EncodedStrings` if the source has
    strings as UTF-8: a converter that writes the same bytes takes them as they are.
    """

    __slots__ = ("_column",)

    def __init__(
        self,
        source_partition: SourcePartition,
        source_offset: SourceOffset,
        topic: str,
        schema: Schema | None,
        values: Sequence[object],
        offset_of: Callable[[int], SourceOffset],
        timestamps: int | Sequence[int | None] | None = None,
        partition: int | None = None,
        keys: Sequence[object] | None = None,
        headers: Sequence[Sequence[tuple[str, object]] | None] | None = None,
    ) -> None:
        if schema is not None and schema.type is SchemaType.STRUCT:
            raise ValueError(f"values of {schema} are given by field: use StructBatch")
        more = {"keys": keys, "headers": headers, "timestamps": timestamps}
        for what, column in more.items():
            if not isinstance(column, int | None) and len(column) != len(values):
                raise ValueError(f"a batch of {len(values)} values has {len(column)} {what}: give one for each value")
        super().__init__(
            source_partition, source_offset, topic, schema, offset_of, timestamps, partition, keys, headers
        )
        self._column = values

    def rows(self) -> list[Any]:
        return list(self._column)

    @property
    def strings(self) -> EncodedStrings | None:
        """The values, if they are held as UTF-8."""
        return self._column if isinstance(self._column, EncodedStrings) else None

    def __len__(self) -> int:
        return len(self._column)

    def _value(self, number: int) -> object:
        return self._column[number]

    def _values(self) -> Iterable[object]:
        return self._column


class StructBatch(ColumnBatch):
    """Structs of one schema, given by field.

    schema: the struct schema of the values; columns: for each field, in order, the values of all records, which must
    fit the schema and are not checked.
    """

    __slots__ = ("_columns",)

    def __init__(
        self,
        source_partition: SourcePartition,
        source_offset: SourceOffset,
        topic: str,
        schema: Schema,
        columns: Sequence[Sequence[object]],
        offset_of: Callable[[int], SourceOffset],
    ) -> None:
        if len(columns) != len(schema.fields) or len(set(map(len, columns))) != 1:
            raise ValueError(f"a batch of {schema} needs a column of the same length for each of its fields")
        super().__init__(source_partition, source_offset, topic, schema, offset_of)
        self._columns = columns

    def rows(self) -> list[Any]:
        return [list(row) for row in zip(*self._columns, strict=True)]

    def __len__(self) -> int:
        return len(self._columns[0])

    def _value(self, number: int) -> object:
        assert self.schema is not None
        return Struct.of(self.schema, [column[number] for column in self._columns])

    def _values(self) -> Iterable[object]:
        assert self.schema is not None
        return map(Struct.of, repeat(self.schema), self.rows())
