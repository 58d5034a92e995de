"""A type in the catalog, a column's type in records, and the settings that select the latter."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ringfence.connectors.api import Schema
from ringfence.connectors.unsupported_values import Handling, refuse_value

Read = Callable[[bytes], Any]


class PgType(NamedTuple):
    """A row of pg_type. kind: typtype (b, c, d, e, r, m); base, base_typmod: for a domain; element: for an array;
    labels: for an enum; delimiter: between the elements of an array of it.
    """

    oid: int
    name: str
    kind: str
    base: int
    base_typmod: int
    element: int
    labels: tuple[str, ...]
    delimiter: str


class ColumnType(NamedTuple):
    """A column's type in records.

    schema: a required one; a nullable column makes it optional; read: converts PostgreSQL's text; zero: the default of
    a required column whose default is an expression; defaults: whether schemas contain the column's default, as in
    Debezium for most types; unknown: replaces an unknown value of a required column, None for `zero`; read_default:
    converts a default, None for `read`; pairs: whether strings are JSON objects of the pairs of an hstore.
    """

    schema: Schema
    read: Read
    zero: object
    defaults: bool = True
    unknown: object = None
    read_default: Read | None = None
    pairs: bool = False

    @property
    def filler(self) -> object:
        """What replaces an unknown value of a required column."""
        return self.zero if self.unknown is None else self.unknown


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
    unsupported: Handling = Handling.NULL

    def handle_unsupported(self, reason: str, raw: bytes) -> None:
        """Replace a value that its type cannot hold by null, or raise `DataException`. reason: why it cannot."""
        if self.unsupported is not Handling.NULL:
            raise refuse_value(reason, raw.decode(errors="replace"))
