"""What stands for a large value (TOAST) that an update did not change: the server does not send it."""

from ringfence.connectors.api import SchemaType
from ringfence.connectors.builtin.postgres.column_types import ColumnType


def unavailable_value(column_type: ColumnType, placeholder: str) -> object:
    schema = column_type.schema
    if schema.type is SchemaType.STRING:
        return placeholder
    if schema.type is SchemaType.BYTES and schema.name is None:
        return placeholder.encode()
    if schema.type is SchemaType.ARRAY and schema.values is not None and schema.values.type is SchemaType.STRING:
        return [placeholder]
    if schema.type is SchemaType.MAP:
        return {placeholder: placeholder}
    return column_type.zero
