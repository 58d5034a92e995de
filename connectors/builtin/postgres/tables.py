"""The tables that the stream has described: schemas of keys, rows and envelopes, and the conversion of rows.

What the stream does not contain about tables and types is read from the catalog. A row with a value that no record can
hold becomes an `UnreadableRecord`.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ringfence.connectors.api import (
    ConnectorError,
    DataException,
    RetriableError,
    Schema,
    SchemaType,
    SourceOffset,
    SourcePartition,
    Struct,
    UnreadableRecord,
)
from ringfence.connectors.api.schemas import BYTES, INT64, STRING, array, optional, struct
from ringfence.connectors.builtin.postgres.offsets import lsn_text
from ringfence.connectors.builtin.postgres.pgoutput import (
    NOT_READ,
    UNCHANGED,
    Change,
    Event,
    RawReading,
    Reading,
    Relation,
    RelationColumn,
    Row,
    decode,
)
from ringfence.connectors.builtin.postgres.settings import Rename, Selection
from ringfence.connectors.builtin.postgres.types import ColumnType, PgType, Read, Types, default_of, unavailable_value
from ringfence.connectors.sdk.row_records import convert_value, row_text

logger = logging.getLogger(__name__)


Query = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""`(statement, parameters) -> rows`: runs one statement and returns all its rows."""


class CatalogColumn(NamedTuple):
    """A column. default: the SQL expression; dimensions: those declared for an array; generated: in the stream only if
    the publication has stored ones."""

    name: str
    oid: int
    typmod: int
    required: bool
    default: str | None
    dimensions: int
    generated: bool


class CatalogTable(NamedTuple):
    """A table. key: the columns of the primary key, or else of the first unique index, in the index's order."""

    columns: tuple[CatalogColumn, ...]
    key: tuple[str, ...]


_COLUMNS: Final = """
SELECT a.attname, a.atttypid, a.atttypmod, a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attndims,
       a.attgenerated <> ''
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
_KEY: Final = """
SELECT array_agg(a.attname::text ORDER BY k.place)
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
  AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid, i.indisprimary
ORDER BY i.indisprimary DESC, i.indexrelid
LIMIT 1
"""
_TYPE: Final = """
SELECT t.oid::int8, t.typname, t.typtype, t.typbasetype::int8, t.typtypmod, t.typelem::int8,
       array(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder),
       t.typdelim::text
FROM pg_type t WHERE t.oid = %s
"""
_NAME: Final = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s
"""


def read_name(query: Query, oid: int) -> tuple[str, str] | None:
    """Return a table's schema and name, or None if it was dropped."""
    rows = query(_NAME, [oid])
    return (str(rows[0][0]), str(rows[0][1])) if rows else None


def read_table(query: Query, oid: int) -> CatalogTable:
    """Return the table as it is now, without columns if it was dropped."""
    columns = tuple(CatalogColumn(*row) for row in query(_COLUMNS, [oid]))
    keys = query(_KEY, [oid])
    return CatalogTable(columns, tuple(keys[0][0]) if keys else ())


def read_type(query: Query, oid: int) -> PgType:
    """Return a type. One that was dropped is read as text: earlier changes may still contain it."""
    rows = query(_TYPE, [oid])
    if not rows:
        logger.warning("The type with the oid %d is no longer in the database: its values are read as text", oid)
        return PgType(oid, "text", "b", 0, -1, 0, (), ",")
    type_oid, name, kind, base, base_typmod, element, labels, delimiter = rows[0]
    return PgType(type_oid, name, kind, base, base_typmod, element, tuple(labels), delimiter)


_IDENTITY: Final = """
SELECT n.nspname, c.relname, c.relkind, c.relreplident,
       CASE WHEN c.relreplident = 'f' THEN (SELECT array_agg(a.attname::text) FROM pg_attribute a
                                            WHERE a.attrelid = c.oid AND a.attnum > 0)
       ELSE (SELECT array_agg(a.attname::text) FROM pg_index i
             JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])
             WHERE i.indrelid = c.oid
               AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END) END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s
"""
_PUBLISHED_COLUMNS: Final = """
SELECT to_jsonb(p) -> 'attnames', to_jsonb(p) ->> 'rowfilter'
FROM pg_publication_tables p WHERE p.pubname = %s AND p.schemaname = %s AND p.tablename = %s
"""
_GENERATED: Final = """
SELECT a.attname::text, a.attgenerated = 's' AND current_setting('server_version_num')::int >= 180000
FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND a.attgenerated <> ''
"""
"""The generated columns, and whether the server can publish them."""


def find_relation(query: Query, oid: int) -> tuple[Relation, bool] | None:
    """Return the table as it is now, with generated columns, and whether it is partitioned; None if it was dropped."""
    rows = query(_IDENTITY, [oid])
    if not rows:
        return None
    schema, name, kind, identity, parts = rows[0]
    key_columns = set(parts or ())
    columns = tuple(
        RelationColumn(column.name, column.name in key_columns, column.oid, column.typmod)
        for column in read_table(query, oid).columns
    )
    return Relation(oid, schema, name, identity, columns), kind == "p"


def find_published(query: Query, publication: str, relation: Relation) -> tuple[Relation, str | None]:
    """Return the table with its published columns, and the publication's row filter (PostgreSQL 15) or None.

    Generated columns are published from PostgreSQL 18 on, if the publication says so.
    """
    rows = query(_PUBLISHED_COLUMNS, [publication, relation.schema, relation.name])
    attributes, condition = rows[0] if rows else (None, None)
    left_out = {
        name for name, publishable in query(_GENERATED, [relation.oid]) if attributes is None or not publishable
    }
    columns = tuple(
        one for one in relation.columns if one.name not in left_out and (attributes is None or one.name in attributes)
    )
    return relation._replace(columns=columns), condition


_OPTIONAL_STRING: Final = optional(STRING)
_OPTIONAL_INT64: Final = optional(INT64)
_SNAPSHOT: Final = Schema(
    SchemaType.STRING,
    name="io.debezium.data.Enum",
    version=1,
    optional=True,
    default="false",
    parameters={"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},
)
SOURCE: Final = struct(
    {
        "version": STRING,
        "connector": STRING,
        "name": STRING,
        "ts_ms": INT64,
        "snapshot": _SNAPSHOT,
        "db": STRING,
        "sequence": _OPTIONAL_STRING,
        "ts_us": _OPTIONAL_INT64,
        "ts_ns": _OPTIONAL_INT64,
        "schema": STRING,
        "table": STRING,
        "txId": _OPTIONAL_INT64,
        "lsn": _OPTIONAL_INT64,
        "xmin": _OPTIONAL_INT64,
        "origin": _OPTIONAL_STRING,
        "origin_lsn": _OPTIONAL_INT64,
    },
    "io.debezium.connector.postgresql.Source",
    version=1,
)
"""The source block. `lsn`: the change's position; `sequence`: a JSON array, the last transaction's end and `lsn`."""
BLOCK: Final = struct(
    {"id": STRING, "total_order": INT64, "data_collection_order": INT64}, "event.block", version=1, optional=True
)
"""A record's position in its transaction (`provide.transaction.metadata`)."""


def envelope(topic: str, row: Schema) -> Schema:
    """Return the schema of the values in a table's topic."""
    return struct(
        {
            "before": row,
            "after": row,
            "source": SOURCE,
            "transaction": BLOCK,
            "op": STRING,
            "ts_ms": _OPTIONAL_INT64,
            "ts_us": _OPTIONAL_INT64,
            "ts_ns": _OPTIONAL_INT64,
        },
        f"{topic}.Envelope",
        version=2,
    )


MESSAGE_KEY: Final = struct({"prefix": _OPTIONAL_STRING}, "io.debezium.connector.postgresql.MessageKey", version=1)
_MESSAGE: Final = struct(
    {"prefix": _OPTIONAL_STRING, "content": optional(BYTES)}, "io.debezium.connector.postgresql.Message", version=1
)
MESSAGE: Final = struct(
    {"op": STRING, "ts_ms": _OPTIONAL_INT64, "source": SOURCE, "transaction": BLOCK, "message": _MESSAGE},
    "io.debezium.connector.postgresql.MessageValue",
    version=1,
)
MESSAGE_CONTENT: Final = _MESSAGE
TRANSACTION_KEY: Final = struct({"id": STRING}, "io.debezium.connector.common.TransactionMetadataKey", version=1)
COLLECTION: Final = struct(
    {"data_collection": STRING, "event_count": INT64}, "event.collection", version=1, optional=True
)
TRANSACTION: Final = struct(
    {
        "status": STRING,
        "id": STRING,
        "event_count": _OPTIONAL_INT64,
        "data_collections": array(COLLECTION, optional=True),
        "ts_ms": INT64,
    },
    "io.debezium.connector.common.TransactionMetadataValue",
    version=1,
)
HEARTBEAT_KEY: Final = struct({"serverName": STRING}, "io.debezium.connector.common.ServerNameKey", version=1)
HEARTBEAT: Final = struct({"ts_ms": INT64}, "io.debezium.connector.common.Heartbeat", version=1)


_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9._-]")


def topic_name(*parts: str) -> str:
    """Return the topic's name. Characters that Kafka does not allow become underscores."""
    return _ILLEGAL.sub("_", ".".join(parts))


def _drop(raw: bytes) -> object:
    return None


class Table:
    """One relation as the stream describes it. columns: the names of the relation's columns; readers: for the decoder,
    one for each of them; field_columns: those that records contain."""

    def __init__(
        self,
        relation: Relation,
        catalog: CatalogTable,
        types: Types,
        prefix: str,
        *,
        rename: Rename,
        captured: Callable[[str], bool],
        key_columns: Sequence[str] | None,
        placeholder: str,
    ) -> None:
        """rename: converts a column's name to its field's; captured(column): whether records contain the column;
        key_columns: from `message.key.columns`."""
        self.oid, self.schema_name, self.name = relation.oid, relation.schema, relation.name
        self.topic = topic_name(prefix, relation.schema, relation.name)
        catalog_columns = {column.name: column for column in catalog.columns}
        self.columns = [column.name for column in relation.columns]
        self.readers: list[Read] = []
        self.json: object = None
        """A cache of `JsonRecords`. It belongs to this description: the server sends a new one after each ANALYZE."""
        self.places: list[int] | None = []
        """Places in the relation of the columns that records contain; None for all."""
        self.left_out: list[str] = []
        fields: dict[str, Schema] = {}
        self.fillers: list[object] = []
        """For each field of a row, what replaces an unknown value; None for null."""
        self._unavailable: list[object] = []
        for place, (name, _, oid, typmod) in enumerate(relation.columns):
            here = catalog_columns.get(name)
            if here is not None and here.oid != oid:
                here = None  # the type was changed since: the catalog's default is for the new type
            column_type = types.column(oid, typmod, here.dimensions if here else 1) if captured(name) else None
            if column_type is None:
                if captured(name):
                    self.left_out.append(f"{name} ({types.name(oid)})")
                self.readers.append(_drop)
                continue
            self.readers.append(column_type.read)
            self.places.append(place)
            fields[name] = _field(column_type, here)
            required = here is not None and here.required and fields[name].default is None
            self.fillers.append(column_type.filler if required else None)
            self._unavailable.append(unavailable_value(column_type, placeholder))
        if len(self.places) == len(relation.columns):
            self.places = None
        self._fields = fields
        self.field_columns = list(fields)
        self._rename = rename
        key_names = self._key_columns(relation, catalog, key_columns)
        self.key_places = [  # among the fields of a row
            list(fields).index(name) for name in key_names
        ]
        self.key_schema = (
            struct(self._rename_fields({name: fields[name] for name in key_names}), f"{self.topic}.Key")
            if self.key_places
            else None
        )
        self._shape()

    def _key_columns(
        self, relation: Relation, catalog: CatalogTable, key_columns: Sequence[str] | None
    ) -> Sequence[str]:
        here = {column.name for column in relation.columns}
        in_identity = [column.name for column in relation.columns if column.in_identity]
        if key_columns is not None:
            if missing := [name for name in key_columns if name not in self._fields]:
                raise ConnectorError(
                    f"message.key.columns contains {missing[0]} of {self.schema_name}.{self.name}, but this table's "
                    f"records do not. Use {', '.join(self._fields)}."
                )
            return key_columns
        key_names: Sequence[str] = catalog.key
        if not here.issuperset(key_names) or (
            relation.identity in "di" and in_identity and not set(in_identity).issuperset(key_names)
        ):
            key_names = ()  # deletes would not contain it
        if not key_names and relation.identity in "di":
            key_names = in_identity
        return [name for name in key_names if name in self._fields]

    def _shape(self) -> None:
        self.row_schema = struct(self._rename_fields(self._fields), f"{self.topic}.Value", optional=True)
        self.envelope = envelope(self.topic, self.row_schema)
        self._required = [
            place
            for place, schema in enumerate(self._fields.values())
            if not schema.optional and schema.default is None
        ]
        self._arrays_without_nulls = [
            place for place, schema in enumerate(self._fields.values()) if has_required_elements(schema)
        ]

    def _rename_fields(self, fields: Mapping[str, Schema]) -> dict[str, Schema]:
        by_name: dict[str, str] = {}
        for column in fields:
            other = by_name.setdefault(self._rename(column), column)
            if other != column:
                raise ConnectorError(
                    f"The columns {other} and {column} of {self.schema_name}.{self.name} would both become the field "
                    f"{self._rename(column)}. Set field.name.adjustment.mode=avro_unicode, or exclude one of them with "
                    "column.exclude.list."
                )
        return {self._rename(column): schema for column, schema in fields.items()}

    def row(self, values: Row, *, torn: bool = False) -> Struct:
        """Return the struct of a decoded row. torn: it contains `UNCHANGED`, which the placeholder replaces."""
        if self.places is not None:
            values = [values[place] for place in self.places]
        if torn:
            values = [self._unavailable[place] if value is UNCHANGED else value for place, value in enumerate(values)]
        if None in values:
            self._allow_nulls(values)
        if self._arrays_without_nulls:
            self._allow_null_elements(values)
        return Struct.of(self.row_schema, values)

    def key_row(self, values: Row) -> Struct:
        """Return the struct of a replica identity: the other columns are null, or their type's filler if required."""
        if self.places is not None:
            values = [values[place] for place in self.places]
        full = [filler if value is None else value for value, filler in zip(values, self.fillers, strict=True)]
        return Struct.of(self.row_schema, full)

    def key(self, row: Struct) -> Struct | None:
        """Return the key of a row; None for a table without a key."""
        if self.key_schema is None:
            return None
        values = row._values
        return Struct.of(self.key_schema, [values[place] for place in self.key_places])

    def _allow_nulls(self, values: Row) -> None:
        """Make required columns that contain null optional: the row is older than NOT NULL, or the number is NaN."""
        self._change(
            [place for place in self._required if values[place] is None], lambda schema: schema.but(optional=True)
        )

    def _allow_null_elements(self, values: Row) -> None:
        """Make the elements of arrays of enums optional once one is null. Debezium replaces the whole array by null."""
        self._change(
            [place for place in self._arrays_without_nulls if has_null(values[place])], _with_optional_elements
        )

    def _change(self, places: Sequence[int], change: Callable[[Schema], Schema]) -> None:
        """Change the schemas of the fields at these places, and the row's with them."""
        if places:
            names = list(self._fields)
            for place in places:
                self._fields[names[place]] = change(self._fields[names[place]])
            self._shape()


def has_required_elements(schema: Schema) -> bool:
    """Return whether the schema is one of an array whose elements may not be null."""
    if schema.type is not SchemaType.ARRAY or schema.values is None:
        return False
    return has_required_elements(schema.values) or (
        schema.values.type is SchemaType.STRING and not schema.values.optional
    )


def has_null(value: object) -> bool:
    """Return whether an array, at any depth, has a null element."""
    return isinstance(value, list) and any(each is None or has_null(each) for each in value)


def _with_optional_elements(schema: Schema) -> Schema:
    assert schema.values is not None
    inner = schema.values
    return schema.but(
        values=_with_optional_elements(inner) if inner.type is SchemaType.ARRAY else inner.but(optional=True)
    )


def _field(column_type: ColumnType, here: CatalogColumn | None) -> Schema:
    if here is None:
        return column_type.schema.but(optional=True)
    default = default_of(here.default, column_type, here.required)
    if here.required and default is None:
        return column_type.schema
    return column_type.schema.but(optional=not here.required, default=default)


Tables = Mapping[int, Table]


RawRow = Sequence[object]
"""Values in PostgreSQL's text format (bytes), None and `UNCHANGED`."""


class RefusedRow(Exception):
    """A row that cannot be converted. row: as the server wrote it."""

    def __init__(self, error: DataException, row: RawRow) -> None:
        super().__init__(str(error))
        self.error = error
        self.row = row


def convert_row(table: Table, row: Sequence[bytes | None]) -> Row:
    """Return the values of a row that was read from its table. Raises `RefusedRow`."""
    try:
        return [None if value is None else read(value) for read, value in zip(table.readers, row, strict=True)]
    except RetriableError:
        raise
    except Exception:
        if (error := _find_error(table, row)) is None:
            raise
        raise RefusedRow(error, row) from None


def decode_change(table: Table, message: bytes, decoders: "dict[int, Reading]") -> tuple[Change, RefusedRow | None]:
    """Decode a row's message. If it cannot be converted, the change has raw values."""
    try:
        return _as_change(decode(message, decoders)), None
    except RetriableError:
        raise
    except Exception:
        raw = _as_change(decode(message, {table.oid: RawReading(len(table.readers))}))
        for row in (raw.after, raw.before):
            if row is not None and (error := _find_error(table, row)) is not None:
                return raw, RefusedRow(error, raw.after or row)
        raise


def _as_change(event: Event) -> Change:
    assert isinstance(event, Change)
    return event


def _find_error(table: Table, row: RawRow) -> DataException | None:
    for name, read, value in zip(table.columns, table.readers, row, strict=True):
        if isinstance(value, bytes):
            try:
                convert_value(read, value, name)
            except DataException as error:
                return error
    return None


def unreadable(
    table: Table, refused: RefusedRow, partition: SourcePartition, offset: SourceOffset, lsn: int
) -> UnreadableRecord:
    """Return the record that stands for the row. lsn: the position of the change, or of the snapshot."""
    texts = {name: _as_text(value) for name, value in zip(table.columns, refused.row, strict=True)}
    captured = [name for name in table.columns if name in table.field_columns]
    key = {name: texts[name] for name in (captured[place] for place in table.key_places)}
    row = ", ".join(f"{name}={value}" for name, value in key.items()) or f"at {lsn_text(lsn)}"
    error = refused.error.at(where=f"The table {table.schema_name}.{table.name}", row=row)
    value = row_text(captured, [texts[name] for name in captured])
    return UnreadableRecord(partition, offset, table.topic, error, value, _key_text(key))


def _key_text(key: Mapping[str, str | None]) -> str | None:
    return row_text(list(key), list(key.values())) if key else None


def _as_text(value: object) -> str | None:
    if value is UNCHANGED or value is None:
        return None
    assert isinstance(value, bytes)
    return value.decode(errors="replace")


Describe = Callable[[Relation], Table]


class KnownTables:
    """By oid: the relation in the stream, the table (None if it is not captured), and the decoder of its rows."""

    def __init__(self, selection: Selection, describe: Describe) -> None:
        self._selection = selection
        self._describe = describe
        self.relations: dict[int, Relation] = {}
        self.tables: dict[int, Table | None] = {}
        self.decoders: dict[int, Reading] = {}

    def relate(self, relation: Relation) -> bool:
        """Register a relation message, which applies to the following rows. Return whether they are captured."""
        oid = relation.oid
        self.relations[oid] = relation
        if not self._selection.has_table(relation.schema, relation.name):
            self.tables[oid], self.decoders[oid] = None, NOT_READ
            return False
        table = self._describe(relation)
        self.tables[oid] = self.decoders[oid] = table
        return True

    def clear(self) -> None:
        """Remove all tables: a new stream describes them again."""
        self.relations.clear()
        self.tables.clear()
        self.decoders.clear()
