"""A type in the catalog, a column's type in records, and the settings that select the latter."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ringfence.connectors.api import Schema

Read = Callable[[bytes], Any]


class PgType(NamedTuple):
    """A row of pg_type. kind: typtype (b, c, d, e, r, m); base, base_typmod: for a domain; element: for an array;
    labels: for an enum.
    """

    oid: int
    name: str
    kind: str
    base: int
    base_typmod: int
    element: int
    labels: tuple[str, ...]


class ColumnType(NamedTuple):
    """A column's type in records.

    schema: a required one; a nullable column makes it optional; read: converts PostgreSQL's text; zero: replaces an
    unknown value; defaults: whether schemas contain the column's default, as in Debezium for most types.
    """

    schema: Schema
    read: Read
    zero: object
    defaults: bool = True


@dataclass(frozen=True, slots=True)
class TypeSettings:
    """The settings that determine how types are written."""

    decimals: str = "precise"
    times: str = "adaptive"
    binary: str = "bytes"
    intervals: str = "numeric"
    hstore: str = "json"
    money_digits: int = 2
    unknown: bool = False
