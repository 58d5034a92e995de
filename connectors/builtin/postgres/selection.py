"""Selects schemas, tables, columns and messages by lists of regular expressions, and converts column names to field
names, as Debezium does: formats such as Avro do not accept all column names.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.api import ConfigException, ParsedConfig
from ringfence.connectors.sdk.linear_patterns import LinearPattern

_SYSTEM: Final = frozenset({"pg_catalog", "information_schema", "pg_toast"})


def check_patterns(name: str, value: object) -> None:
    """Validate that each item of the list is a regular expression."""
    for item in value if isinstance(value, list) else ():
        try:
            LinearPattern(str(item))
        except ValueError as error:
            raise ConfigException.invalid(name, item, f"Not a regular expression: {error}") from error


class Patterns:
    """Regular expressions. A name is in them if it matches one completely, ignoring case."""

    def __init__(self, items: Iterable[object]) -> None:
        self._compiled = [LinearPattern(str(item), re.IGNORECASE) for item in items]

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def __contains__(self, name: str) -> bool:
        return any(pattern.fullmatch(name) for pattern in self._compiled)


@dataclass(frozen=True)
class Rule:
    """An include list and an exclude list. An empty include list includes everything."""

    include: Patterns
    exclude: Patterns

    def __contains__(self, name: str) -> bool:
        return name not in self.exclude and (not self.include or name in self.include)


def rule(config: ParsedConfig, include: str, exclude: str) -> Rule:
    """Return the rule of two settings."""
    return Rule(Patterns(_items(config, include)), Patterns(_items(config, exclude)))


def _items(config: ParsedConfig, name: str) -> Sequence[object]:
    value = config[name]
    assert isinstance(value, list)
    return value


class Selection:
    """The schemas, tables, columns and messages to read."""

    def __init__(self, schemas: Rule, tables: Rule, columns: Rule, messages: Rule, keys: str | None) -> None:
        self._schemas = schemas
        self._tables = tables
        self._columns = columns
        self.messages = messages
        self._keys = [
            (LinearPattern(table, re.IGNORECASE), tuple(column.strip() for column in columns.split(",")))
            for part in (keys or "").split(";")
            if part.strip()
            for table, _, columns in [part.strip().rpartition(":")]
        ]

    def has_table(self, schema: str, table: str) -> bool:
        return (
            schema not in _SYSTEM
            and not schema.startswith("pg_temp_")
            and schema in self._schemas
            and f"{schema}.{table}" in self._tables
        )

    def has_column(self, schema: str, table: str, column: str) -> bool:
        return f"{schema}.{table}.{column}" in self._columns

    def key_columns(self, schema: str, table: str) -> Sequence[str] | None:
        """Return a table's columns in `message.key.columns`, or None if it does not contain the table."""
        return next((columns for name, columns in self._keys if name.fullmatch(f"{schema}.{table}")), None)


NONE: Final = "none"
AVRO: Final = "avro"
AVRO_UNICODE: Final = "avro_unicode"

_CONVERTERS: Final = ("key.converter", "value.converter")
_DIGIT: Final = re.compile("^(?=[0-9])")
_OTHER: Final = re.compile("[^A-Za-z0-9_]")
_OTHER_OR_UNDERSCORE: Final = re.compile("^[0-9]|[^A-Za-z0-9]")
Rename = Callable[[str], str]


def renaming(mode: str, config: Mapping[str, str]) -> Rename:
    """Return the function that converts a column's name to its field's name.

    mode: one of the constants above. With an AvroConverter, `none` means `avro`.
    """
    if mode == NONE and any(config.get(name, "").strip().endswith("AvroConverter") for name in _CONVERTERS):
        mode = AVRO
    if mode == AVRO:
        return _with_underscores
    return _with_codes if mode == AVRO_UNICODE else str


def _with_underscores(name: str) -> str:
    return _DIGIT.sub("_", _OTHER.sub(lambda match: "_" * len(_units(match[0])), name))


def _with_codes(name: str) -> str:
    return _OTHER_OR_UNDERSCORE.sub(lambda match: "".join(map(_code, _units(match[0]))), name)


def _units(char: str) -> memoryview:
    """Return the UTF-16 code units: Debezium replaces Java's chars."""
    return memoryview(char.encode("utf-16")[2:]).cast("H")


def _code(unit: int) -> str:
    """Return the code as Debezium writes it: with two leading zeros up to 0xff, with none from 0x100."""
    return f"_u00{unit:x}" if unit < 0x100 else f"_u{unit:x}"
