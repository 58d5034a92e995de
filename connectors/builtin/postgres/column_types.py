"""What a type is in the catalog, what a column's type is in records, and the settings that choose among forms."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ringfence.connectors.api import Schema

Read = Callable[[bytes], Any]


class PgType(NamedTuple):
    """A row of pg_type. `kind`: typtype (b, c, d, e, r, m); `base`, `base_typmod`: of a domain; `element`: of an array;
    `labels`: of an enum.
    """

    oid: int
    name: str
    kind: str
    base: int
    base_typmod: int
    element: int
    labels: tuple[str, ...]


class ColumnType(NamedTuple):
    """`schema` is required; a nullable column makes it optional. `zero`: a value that stands where there is none.

    defaults: whether schemas carry the column's default, which Debezium's do for most types.
    """

    schema: Schema
    read: Read
    zero: object
    defaults: bool = True


@dataclass(frozen=True, slots=True)
class TypeSettings:
    """The settings that choose among several forms of a type."""

    decimals: str = "precise"
    times: str = "adaptive"
    binary: str = "bytes"
    intervals: str = "numeric"
    hstore: str = "json"
    money_digits: int = 2
    unknown: bool = False
