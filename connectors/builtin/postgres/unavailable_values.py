"""What stands for a large value (TOAST) that an update did not change: the server does not send it."""

import hashlib
import uuid
from typing import Final

import orjson

from ringfence.connectors.api import Schema, SchemaType
from ringfence.connectors.builtin.postgres.column_types import ColumnType

_BYTES_OF: Final = frozenset(
    [(SchemaType.INT32, None), (SchemaType.INT64, None), (SchemaType.INT32, "io.debezium.time.Date")]
)
"""Type and name of an array's elements for which Debezium writes the placeholder's bytes, each as an element."""


def unavailable_value(column_type: ColumnType, placeholder: str) -> object:
    """Return Debezium's value; None for types that cannot hold the placeholder: null, also in a required column."""
    schema = column_type.schema
    if column_type.pairs:
        return orjson.dumps({placeholder: placeholder}).decode()
    if schema.type is SchemaType.STRING:
        return placeholder
    if schema.type is SchemaType.BYTES and schema.name is None:
        return placeholder.encode()
    if schema.type is SchemaType.ARRAY and schema.values is not None:
        return _unavailable_array(schema.values, placeholder)
    if schema.type is SchemaType.MAP:
        return {placeholder: placeholder}
    return None


def _unavailable_array(element: Schema, placeholder: str) -> object:
    if element.name == "io.debezium.data.Uuid":
        return [_uuid_of(placeholder)]
    if element.type is SchemaType.STRING:
        return [placeholder]
    if element.type is SchemaType.BYTES and element.name is None:
        return [placeholder.encode()]
    if (element.type, element.name) in _BYTES_OF:
        return list(placeholder.encode())
    return None


def _uuid_of(text: str) -> str:
    """Return Java's `UUID.nameUUIDFromBytes`."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest, version=3))
