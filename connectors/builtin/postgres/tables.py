"""The schemas of a captured table's key, row and envelope, and the conversion of decoded rows to structs."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ringfence.connectors.api import ConnectorError, Schema, SchemaType, Struct
from ringfence.connectors.api.schemas import struct
from ringfence.connectors.builtin.postgres.catalog import CatalogColumn, CatalogTable
from ringfence.connectors.builtin.postgres.column_types import ColumnType, Read
from ringfence.connectors.builtin.postgres.defaults import default_of
from ringfence.connectors.builtin.postgres.envelope_schemas import envelope
from ringfence.connectors.builtin.postgres.field_names import Rename
from ringfence.connectors.builtin.postgres.pgoutput import UNCHANGED, Relation, Row
from ringfence.connectors.builtin.postgres.types import Types
from ringfence.connectors.builtin.postgres.unavailable_values import unavailable_value

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
