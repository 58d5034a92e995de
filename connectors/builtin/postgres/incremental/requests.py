"""Debezium's signals: `execute-snapshot`, `pause-snapshot`, `resume-snapshot` and `stop-snapshot`, and their data."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

EXECUTE: Final = "execute-snapshot"
PAUSE: Final = "pause-snapshot"
RESUME: Final = "resume-snapshot"
STOP: Final = "stop-snapshot"
KINDS: Final = (EXECUTE, PAUSE, RESUME, STOP)
COLLECTIONS: Final = "data-collections"
_TYPE: Final = "type"
_MOST_PATTERNS: Final = 1000
_NO_CONDITION: Final = (
    "additional-conditions: rows that a condition leaves out would hide changes of theirs. Read the whole table"
)
_REFUSED: Final[Mapping[str, str]] = {
    "additional-condition": _NO_CONDITION,
    "additional-conditions": _NO_CONDITION,
    "surrogate-key": "surrogate-key: rows are told apart by the primary key, or the index of the replica identity",
}


class SnapshotRequest(NamedTuple):
    """tables: regular expressions for schema.table; none with STOP: all."""

    kind: str
    tables: tuple[str, ...] = ()

    def names(self, table: str) -> bool:
        """Whether it is about a table, schema.table."""
        return any(re.fullmatch(one, table, re.IGNORECASE) for one in self.tables)


def parse_request(kind: str, data: object) -> SnapshotRequest:
    """data: an object, or its JSON. Raises `ValueError`, which says what is wrong."""
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
        raise ValueError(f"type {type_!r}: only incremental snapshots can be asked for")
    given = fields.get(COLLECTIONS, [])
    if not isinstance(given, list) or len(given) > _MOST_PATTERNS or not all(isinstance(one, str) for one in given):
        raise ValueError(f"{COLLECTIONS} must be a list of up to {_MOST_PATTERNS} regular expressions for schema.table")
    if kind == EXECUTE and not given:
        raise ValueError(f"{COLLECTIONS} must name the tables to read")
    for one in given:
        try:
            re.compile(one)
        except re.error as error:
            raise ValueError(f"{one!r} in {COLLECTIONS} is not a regular expression: {error}") from error
    return SnapshotRequest(kind, tuple(given))


def _fields(data: object) -> Mapping[str, Any]:
    if data is None or data == "":
        return {}
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except ValueError as error:
            raise ValueError(f"its data is not JSON: {error}") from error
    if not isinstance(data, Mapping):
        raise ValueError("its data must be a JSON object")  # noqa: TRY004 - of a request, not of code
    return data
