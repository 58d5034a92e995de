"""Selects schemas, tables, columns and messages by lists of regular expressions, as Debezium does."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.api import ConfigException, ParsedConfig
from ringfence.connectors.linear_patterns import LinearPattern

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
