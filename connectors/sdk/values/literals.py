"""Parses a value from its text, with the narrowest schema that fits: how Kafka Connect reads header literals."""

import re
from decimal import Decimal, InvalidOperation
from typing import Final

from ringfence.connectors.api import Schema, SchemaAndValue, SchemaType
from ringfence.connectors.api.schemas import (
    BOOLEAN,
    DATE,
    DATE_NAME,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIME_NAME,
    TIMESTAMP,
    TIMESTAMP_NAME,
    array,
    decimal,
    single,
)
from ringfence.connectors.sdk.values.date_patterns import DatePattern
from ringfence.connectors.sdk.values.moments import to_date, to_datetime, to_time

_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WIDTHS: Final = ((8, INT8), (16, INT16), (32, INT32), (64, INT64))
_RANKS: Final = {
    kind: rank for rank, kind in enumerate((*(schema.type for _, schema in _WIDTHS), FLOAT32.type, FLOAT64.type))
}
_PIECE: Final = re.compile(r'[:,{}\[\]"]|(?:\\.|[^:,{}\[\]"\\]|\\$)+', re.DOTALL)
_TEMPORAL: Final = (DATE_NAME, TIME_NAME, TIMESTAMP_NAME)
_TIME: Final = DatePattern("HH:mm:ss.SSS'Z'")
_DATE: Final = DatePattern("yyyy-MM-dd")
_TIMESTAMP: Final = DatePattern("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
_NOTHING: Final = SchemaAndValue(None, None)
_DEEPEST: Final = 100
"""A text whose lists and mappings are nested deeper is a string."""


class _NoLiteral(ValueError):
    """The text is not a list or mapping after all."""


def parse(text: str) -> SchemaAndValue:
    """Return the value of a string. If it has no other form, it is a string.

    As in Kafka Connect, what follows a list, a mapping, or a number and a delimiter is ignored.
    """
    reader = _Reader(text)
    first = reader.first
    if first.strip() in ("[", "{"):
        try:
            return reader.element()
        except _NoLiteral:
            return SchemaAndValue(STRING, text)
    if first[:1].isspace() and not first.strip():
        return SchemaAndValue(STRING, text)
    if first.strip()[:1].isdigit() and (moment := reader.moment(first)) is not None:
        return moment
    result = _scalar(text) or _number(first.strip())
    return result or SchemaAndValue(STRING, text)


def _scalar(text: str) -> SchemaAndValue | None:
    """Parse a number, a time, true, false or null; None for anything else."""
    stripped = text.strip()
    if stripped == "null":
        return _NOTHING
    if stripped in ("true", "false"):
        return SchemaAndValue(BOOLEAN, stripped == "true")
    if stripped[:1].isdigit() and (moment := _temporal(stripped)) is not None:
        return moment
    return _number(stripped)


def _temporal(text: str) -> SchemaAndValue | None:
    text = text.replace("\\:", ":")
    for length, pattern, schema in ((13, _TIME, TIME), (24, _TIMESTAMP, TIMESTAMP), (10, _DATE, DATE)):
        if len(text) == length and (moment := pattern.parse(text)) is not None:
            value = {TIME_NAME: to_time, DATE_NAME: to_date}.get(str(schema.name), to_datetime)(moment)
            return SchemaAndValue(schema, value)
    return None


def _number(text: str) -> SchemaAndValue | None:
    if _NUMBER.fullmatch(text) is None or text[0] == ".":
        return None
    try:
        exact = Decimal(text)
    except InvalidOperation:
        return None
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int)  # finite
    if exact == exact.to_integral_value():
        for bits, schema in _WIDTHS:
            if -(1 << (bits - 1)) <= exact < 1 << (bits - 1):
                return SchemaAndValue(schema, int(exact))
    if exponent != 0:
        for schema, value in ((FLOAT32, single(float(exact))), (FLOAT64, float(exact))):
            if abs(value) != float("inf"):
                return SchemaAndValue(schema, value)
    return SchemaAndValue(decimal(-exponent), exact)


class _Reader:
    """Reads lists and mappings, similar to JSON, but refuses unquoted strings."""

    def __init__(self, text: str) -> None:
        self._pieces = [match[0] for match in _PIECE.finditer(text)]
        self._at = 0
        self._depth = 0

    @property
    def first(self) -> str:
        """Return the first piece, unchanged."""
        return self._pieces[0] if self._pieces else ""

    def moment(self, piece: str) -> SchemaAndValue | None:
        """Return a time that begins with the piece that was read last: the colons of a time are separate pieces."""
        at = self._at if self._at else 1
        temporal = _temporal(piece + "".join(self._pieces[at : at + 4]))
        if temporal is not None:
            self._at = at + 4
        return temporal

    def _next(self) -> str:
        """Return the next piece that is not blank."""
        while self._at < len(self._pieces):
            piece = self._pieces[self._at]
            self._at += 1
            if piece.strip():
                return piece.strip()
        raise _NoLiteral

    def _peek(self) -> str:
        at = self._at
        piece = self._next()
        self._at = at
        return piece

    def element(self) -> SchemaAndValue:
        """Return the next value. Raises `_NoLiteral`."""
        piece = self._next()
        if piece == '"':
            return self._text()
        if piece in "[{":
            if self._depth == _DEEPEST:
                raise _NoLiteral
            self._depth += 1
            inner = self._list() if piece == "[" else self._mapping()
            self._depth -= 1
            return inner
        if piece in ",]}:":
            raise _NoLiteral
        if piece[0].isdigit() and (moment := self.moment(piece)) is not None:
            return moment
        scalar = _scalar(piece)
        if scalar is None:
            raise _NoLiteral
        return scalar

    def _text(self) -> SchemaAndValue:
        pieces = []
        while self._at < len(self._pieces):
            piece = self._pieces[self._at]
            self._at += 1
            if piece == '"':
                break
            pieces.append(piece)
        content = "".join(pieces)
        literal = parse(content)
        if literal.schema is not None and literal.schema.name in _TEMPORAL:
            return literal
        return SchemaAndValue(STRING, content)

    def _list(self) -> SchemaAndValue:
        schema: Schema | None = None
        values: list[object] = []
        while self._peek() != "]":
            element = self.element()
            schema = _common(schema, element.schema)
            values.append(element.value)
            if self._peek() == ",":
                self._next()
                if self._peek() == "]":
                    continue
            elif self._peek() != "]":
                raise _NoLiteral
        self._next()
        if schema is None:
            return SchemaAndValue(Schema(SchemaType.ARRAY), values)
        return SchemaAndValue(array(schema), [_align(schema, value) for value in values])

    def _mapping(self) -> SchemaAndValue:
        keys: Schema | None = None
        values: Schema | None = None
        pairs: list[tuple[object, object]] = []
        while self._peek() != "}":
            key = self.element()
            if key.value is None or self._next() != ":":
                raise _NoLiteral
            value = self.element()
            if self._peek() == ",":
                self._next()
            keys, values = _common(keys, key.schema), _common(values, value.schema)
            pairs.append((key.value, value.value))
        self._next()
        schema = Schema(SchemaType.MAP, keys=keys, values=None if keys is None else values)
        return SchemaAndValue(
            schema, {_hashable(_align(schema.keys, key)): _align(schema.values, value) for key, value in pairs}
        )


def _hashable(key: object) -> object:
    if isinstance(key, list | dict):
        raise _NoLiteral
    return key


def _common(previous: Schema | None, latest: Schema | None) -> Schema | None:
    """Return the wider schema of two numbers' schemas; None if the two have nothing in common."""
    if previous is None or latest is None:
        return previous or latest
    if previous.type is latest.type:
        return latest
    if previous.type in _RANKS and latest.type in _RANKS:
        return max(previous, latest, key=lambda schema: _RANKS[schema.type])
    return None


def _align(schema: Schema | None, value: object) -> object:
    if schema is not None and value is None:
        raise _NoLiteral
    if schema is not None and schema.type in (FLOAT32.type, FLOAT64.type) and isinstance(value, int):
        return single(float(value)) if schema.type is FLOAT32.type else float(value)
    return value
