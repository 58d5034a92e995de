"""Many records whose values are structs of one schema, given as columns."""

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from ringfence.connectors.api.offsets import SourceOffset, SourcePartition
from ringfence.connectors.api.records import SourceRecord
from ringfence.connectors.api.schemas import Schema
from ringfence.connectors.api.structs import Struct


class StructBatch(Sequence[SourceRecord]):
    """The fast path for sources that read columns: a sequence of records, each created only when it is accessed.

    `poll` may return it with any converters and transforms. If those can process many values at once, no object per
    record is created at all, which takes a third of the time.

    schema: the struct schema of the values; columns: for each field, in order, the values of all records, which must
    fit the schema and are not checked; source_offset: the offset after the last record; offset_of(number): the offset
    after that record, counted from 0, in case not all are committed together. The records have no keys and no headers.
    """

    __slots__ = ("_columns", "_offset_of", "schema", "source_offset", "source_partition", "topic")

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
        self.source_partition = source_partition
        self.source_offset = source_offset
        self.topic = topic
        self.schema = schema
        self._columns = columns
        self._offset_of = offset_of

    def rows(self) -> list[list[object]]:
        """Return the values as new lists of their fields."""
        return [list(row) for row in zip(*self._columns, strict=True)]

    def __len__(self) -> int:
        return len(self._columns[0])

    @overload
    def __getitem__(self, place: int) -> SourceRecord: ...
    @overload
    def __getitem__(self, place: slice) -> list[SourceRecord]: ...
    def __getitem__(self, place: int | slice) -> SourceRecord | list[SourceRecord]:
        if isinstance(place, slice):
            return [self._record(number) for number in range(*place.indices(len(self)))]
        return self._record(range(len(self))[place])

    def __iter__(self) -> Iterator[SourceRecord]:
        return map(self._record, range(len(self)))

    def __repr__(self) -> str:
        return f"StructBatch(topic={self.topic!r}, {len(self)} records, source_offset={self.source_offset!r})"

    def _record(self, number: int) -> SourceRecord:
        last = number == len(self) - 1
        return SourceRecord(
            self.source_partition,
            self.source_offset if last else self._offset_of(number),
            self.topic,
            Struct.of(self.schema, [column[number] for column in self._columns]),
            value_schema=self.schema,
        )
