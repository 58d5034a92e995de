"""Debezium's signals about incremental snapshots: requests to read tables again while a connector streams."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ringfence.connectors.sdk.linear_patterns import LinearPattern

EXECUTE: Final = "execute-snapshot"
PAUSE: Final = "pause-snapshot"
RESUME: Final = "resume-snapshot"
STOP: Final = "stop-snapshot"
KINDS: Final = (EXECUTE, PAUSE, RESUME, STOP)
COLLECTIONS: Final = "data-collections"
_TYPE: Final = "type"
_MOST_PATTERNS: Final = 1000
_NO_CONDITION: Final = (
    "additional-conditions are not supported: rows that a condition excludes could miss changes. Read the whole table"
)
_REFUSED: Final[Mapping[str, str]] = {
    "additional-condition": _NO_CONDITION,
    "additional-conditions": _NO_CONDITION,
    "surrogate-key": "a surrogate-key is not supported: rows are identified by the primary key, or by the index of the "
    "replica identity. Remove it",
}


@lru_cache(maxsize=1024)
def compile_name(pattern: str) -> LinearPattern:
    """Return a signal's regular expression, compiled once. Raises `ValueError`."""
    return LinearPattern(pattern, re.IGNORECASE)


class SnapshotRequest(NamedTuple):
    """A request of a signal. tables: regular expressions for schema.table; with STOP, none means all."""

    kind: str
    tables: tuple[str, ...] = ()

    def names(self, table: str) -> bool:
        """Return whether the request includes a table, schema.table."""
        return any(compile_name(one).fullmatch(table) for one in self.tables)


def parse_request(kind: str, data: object) -> SnapshotRequest:
    """Parse a signal. data: an object, or its JSON. Raises `ValueError` with the reason if it is invalid."""
    if kind not in KINDS:
        raise ValueError(f"there is no signal {kind!r}: use {', '.join(KINDS)}")
    if kind in (PAUSE, RESUME):
        return SnapshotRequest(kind)
    fields = _fields(data)
    for name, why in _REFUSED.items():
        if fields.get(name):
            raise ValueError(why)
    type_ = str(fields.get(_TYPE, "incremental")).lower()
    if type_ != "incremental":
        raise ValueError(f"type {type_!r} is not supported: use incremental")
    patterns = fields.get(COLLECTIONS, [])
    if (
        not isinstance(patterns, list)
        or len(patterns) > _MOST_PATTERNS
        or not all(isinstance(one, str) for one in patterns)
    ):
        raise ValueError(f"{COLLECTIONS} must be a list of up to {_MOST_PATTERNS} regular expressions for schema.table")
    if kind == EXECUTE and not patterns:
        raise ValueError(f"{COLLECTIONS} must name the tables to read")
    for one in patterns:
        try:
            compile_name(one)
        except ValueError as error:
            raise ValueError(f"{one[:200]!r} in {COLLECTIONS} is not a regular expression: {error}") from error
    return SnapshotRequest(kind, tuple(patterns))


def _fields(data: object) -> Mapping[str, Any]:
    if data is None or data == "":
        return {}
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"its data is not JSON: {error}") from error
    if not isinstance(data, Mapping):
        raise ValueError("its data must be a JSON object")  # noqa: TRY004 - an invalid request, not a programming error
    return data
