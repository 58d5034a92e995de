"""Records for display, and the differences between records with the same key. Pure."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ringfence.web.state_badges import Badge, Severity

VIEWS: Final = ("table", "json", "diff")
_MOST_CHANGES: Final = 100
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
