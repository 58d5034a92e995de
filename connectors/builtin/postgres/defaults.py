"""Converts default expressions of columns to default values of schemas, as Debezium does.

A literal becomes its value. An expression that is evaluated for each row (a function, a sequence) becomes the type's
zero if the column is required, because a schema's default is a constant. It never replaces a real value.
"""

import re
from decimal import MAX_PREC, Decimal, localcontext
from typing import Final

from ringfence.connectors.api import ConnectorError, SchemaType
from ringfence.connectors.builtin.postgres.column_types import ColumnType

_LITERAL: Final = re.compile(r"^\(?B?'((?:[^']|'')*)'(?:::.*)?\)?$", re.DOTALL)
_NUMBER: Final = re.compile(r"^\(?(-?\d+(?:\.\d+)?)\)?(?:::.*)?$")
_WORDS: Final = {"true": b"t", "false": b"f"}
_NO_DEFAULTS: Final = frozenset({SchemaType.ARRAY, SchemaType.STRUCT, SchemaType.MAP, SchemaType.BYTES})


def default_of(expression: str | None, type_: ColumnType, required: bool) -> object:
    """Return the schema's default value, or None if it has none."""
    if expression is None or not type_.defaults or expression.upper().startswith("NULL"):
        return None
    schema = type_.schema
    if schema.type in _NO_DEFAULTS and schema.name != "org.apache.kafka.connect.data.Decimal":
        return None
    text = _literal(expression)
    if text is None:
        return type_.zero if required else None
    try:
        value = (type_.read_default or type_.read)(text)
        if isinstance(value, Decimal):
            with localcontext(prec=MAX_PREC):
                return value.quantize(Decimal(1).scaleb(-int(schema.parameters["scale"])))
    except (ValueError, ArithmeticError, LookupError, TypeError, ConnectorError):
        return type_.zero if required else None
    return value


def _literal(expression: str) -> bytes | None:
    if (word := _WORDS.get(expression)) is not None:
        return word
    if match := _LITERAL.match(expression):
        return match[1].replace("''", "'").encode()
    if match := _NUMBER.match(expression):
        return match[1].encode()
    return None
