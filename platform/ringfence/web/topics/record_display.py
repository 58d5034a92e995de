"""Records for display, and the differences between records with the same key. Pure."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ringfence.web.state_badges import Badge, Severity

VIEWS: Final = ("table", "json", "diff")
_MOST_CHANGES: Final = 100
_MOST_COLUMNS: Final = 8
_LONGEST_LINE: Final = 200
_VISIBILITY_BADGES: Final = {
    "committed": Badge("Committed", "circle-check", Severity.OK, "Every reader sees it."),
    "aborted": Badge("Aborted", "circle-x", Severity.BAD, "Only read_uncommitted readers see it."),
    "open": Badge("Open", "circle-dot", Severity.MOTION, "Its transaction is not decided yet."),
    "waiting": Badge(
        "Behind an open one",
        "clock",
        Severity.WARN,
        "It is committed. read_committed readers see it once an earlier transaction has ended.",
    ),
}


@dataclass(frozen=True, slots=True)
class RecordDisplay:
    """A record for display. key, value, headers: as decoded by the worker."""

    partition: int
    offset: int
    timestamp_ms: int
    look: Badge
    key: Mapping[str, Any]
    value: Mapping[str, Any]
    headers: Sequence[Mapping[str, Any]]

    @property
    def size(self) -> int:
        """Return the bytes of key, value and headers."""
        return sum(int(field.get("size") or 0) for field in (self.key, self.value, *self.headers))

    @property
    def key_line(self) -> str:
        return _line_of(self.key)

    @property
    def value_line(self) -> str:
        return _line_of(self.value)

    @property
    def as_json(self) -> str:
        """Return the whole record as JSON."""
        whole = {
            "partition": self.partition,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "key": _load(self.key),
            "value": _load(self.value),
            "headers": [{"name": each["name"], "value": _load(each)} for each in self.headers],
        }
        return json.dumps(whole, indent=2, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Change:
    """A field of two records; before or after is None if that record lacks the field."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes between an earlier record and the next one with the same key."""

    key: str
    before: RecordDisplay
    after: RecordDisplay
    changes: Sequence[Change]
    more: int


def show_record(record: Mapping[str, Any]) -> RecordDisplay:
    return RecordDisplay(
        record["partition"],
        record["offset"],
        max(0, record["timestamp_ms"]),
        _VISIBILITY_BADGES[record["seen"]],
        record["key"],
        record["value"],
        record["headers"],
    )


def find_columns(records: Sequence[RecordDisplay]) -> list[str]:
    """Return the fields that most values have, in the order of the first one; [] where most are no objects."""
    objects = [value for each in records if isinstance(value := _load(each.value), dict)]
    if len(objects) * 2 <= len(records):
        return []
    counts = Counter(name for value in objects for name in value)
    common = [name for name, count in counts.items() if count * 2 > len(objects)]
    return common[:_MOST_COLUMNS]


def fill_columns(record: RecordDisplay, columns: Sequence[str]) -> list[tuple[str, str]]:
    """Return the record's cells with their columns. A value that is no object is in the first, whole."""
    value = _load(record.value)
    if not isinstance(value, dict):
        return [(name, "" if number else _line_of(record.value)) for number, name in enumerate(columns)]
    return [(name, _cell(value[name]) if name in value else "") for name in columns]


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:_LONGEST_LINE]


def _line_of(field: Mapping[str, Any]) -> str:
    """Return the field on one line, with its beginning if it is long."""
    if field["kind"] in ("null", "empty"):
        return str(field["kind"])
    value = _load(field)
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(field["text"])
    return " ".join(text[:_LONGEST_LINE].split())


def differences(records: Sequence[RecordDisplay]) -> list[Difference]:
    """Compare each record with the previous one with the same key, the newest first. Records without a
    key are ignored.
    """
    by_key: dict[tuple[str, str], list[RecordDisplay]] = {}
    for each in records:
        if each.key["kind"] != "null":
            by_key.setdefault((each.key["kind"], each.key["text"]), []).append(each)
    pairs = []
    for (_, key), ones in by_key.items():
        history = sorted(ones, key=lambda one: (one.timestamp_ms, one.offset))
        for before, after in itertools.pairwise(history):
            changes = list(_changes(before, after))
            pairs.append(Difference(key, before, after, changes[:_MOST_CHANGES], max(0, len(changes) - _MOST_CHANGES)))
    return sorted(pairs, key=lambda one: (-one.after.timestamp_ms, -one.after.offset))


def _changes(before: RecordDisplay, after: RecordDisplay) -> Iterator[Change]:
    left, right = dict(_flatten("value", _load(before.value))), dict(_flatten("value", _load(after.value)))
    for path in dict.fromkeys([*left, *right]):
        if left.get(path) != right.get(path):
            yield Change(path, left.get(path), right.get(path))


def _flatten(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield each leaf with its path."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from _flatten(f"{path}.{name}", each)
    elif isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from _flatten(f"{path}[{number}]", each)
    else:
        yield path, json.dumps(value, ensure_ascii=False)


def _load(field: Mapping[str, Any]) -> Any:
    """Parse the text as JSON if it is an object or list; otherwise return it."""
    if field["kind"] == "null":
        return None
    if field["kind"] in ("string", "hex", "empty") or field["cut"]:
        return field["text"]
    try:
        return json.loads(field["text"])
    except ValueError:
        return field["text"]
