"""Records of a batch by column: a fast path through transforms and converter for values of one shape.

Record by record, a chain of small transforms spends most of its time on creating records and structs that live until
the next transform. Here the values of many records are processed together, and a struct is a plain list in between. The
results are the same: a transform or converter that cannot process a column says so, and the records are then processed
one by one.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ringfence.connectors.api import ColumnBatch, Schema, SchemaType, SourceRecord, Struct, StructBatch, ValueBatch


class Column:
    """Consecutive records for one topic whose values have the same schema object, none of them null.

    records: as the connector returned them, never changed; they provide keys, headers, partitions and timestamps.
    topic, schema (None: plain values) and values are changed by transforms in place. values: one per record. With a
    struct's schema, each is a list in the order of its fields, which belongs to the column and may be changed. A plain
    mapping belongs to the connector and must not be changed. Strings may be `EncodedStrings`.
    """

    __slots__ = ("records", "schema", "topic", "values")

    def __init__(
        self, records: Sequence[SourceRecord], topic: str, schema: Schema | None, values: Sequence[Any]
    ) -> None:
        self.records = records
        self.topic = topic
        self.schema = schema
        self.values = values

    @property
    def structs(self) -> bool:
        """Whether the values are lists of fields."""
        return self.schema is not None and self.schema.type is SchemaType.STRUCT

    def whole(self) -> list[Any]:
        """Return the values in the form of records: lists of fields as structs."""
        schema, of = self.schema, Struct.of
        if schema is None or not self.structs:
            return self.values if isinstance(self.values, list) else list(self.values)
        return [of(schema, fields) for fields in self.values]


def column_of(records: Sequence[SourceRecord]) -> Column | None:
    """Return the column of records with one topic and one value schema; None if their values have several shapes, or
    are null.
    """
    if isinstance(records, StructBatch):
        return Column(records, records.topic, records.schema, records.rows())
    if isinstance(records, ValueBatch) and records.strings is not None:
        return Column(records, records.topic, records.schema, records.strings)
    if isinstance(records, ColumnBatch):
        values, schema, topic = records.rows(), records.schema, records.topic
    else:
        values, schema, topic = [record.value for record in records], records[0].value_schema, records[0].topic
    if schema is None and values[0].__class__ is Struct:
        schema = values[0].schema
    if schema is not None and schema.type is SchemaType.STRUCT:
        values = [each._values.copy() for each in values if each.__class__ is Struct and each.schema is schema]
        return Column(records, topic, schema, values) if len(values) == len(records) else None
    if None in values or (schema is None and any(value.__class__ is Struct for value in values)):
        return None
    return Column(records, topic, schema, values)


def alike(batch: Sequence[SourceRecord]) -> Iterator[Sequence[SourceRecord]]:
    """Split the batch where the topic or the value's schema object changes."""
    if isinstance(batch, ColumnBatch):
        yield batch
        return
    start = 0
    schema, topic = batch[0].value_schema, batch[0].topic
    for place, record in enumerate(batch):
        if record.value_schema is not schema or (record.topic is not topic and record.topic != topic):
            yield batch[start:place]
            start, schema, topic = place, record.value_schema, record.topic
    yield batch[start:] if start else batch
