"""Compares the records of two connectors column by column, and tells which differences are meant to be."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.postgres.comparison import Comparable
from tests.postgres.generated import ARRAYS, SCALARS

_COLUMNS: Final = {**SCALARS, **ARRAYS}
_PLACEHOLDER: Final = ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
_LATER_THAN_GREGORY: Final = range(-141_427, 2_932_897)
"""The days that Java's Gregorian calendar and the proleptic one number alike, up to 9999."""


class Difference(NamedTuple):
    """One difference. phase: snapshot, incremental or stream; what: value, schema, column, record or source; type: the
    column's, "" if unknown; theirs, ours: None if it is missing.
    """

    table: str
    phase: str
    what: str
    column: str
    type: str
    theirs: Any
    ours: Any


def _is_placeholder(value: object) -> bool:
    return any(each in json.dumps(value) for each in _PLACEHOLDER)


def _is_array(one: Difference) -> bool:
    return one.type.endswith("[]") or one.type == "gen.counts"


def _element(one: Difference) -> str:
    return one.type.replace("[]", "").partition("(")[0].strip()


def _is_late(value: object) -> bool:
    return isinstance(value, int) and value in _LATER_THAN_GREGORY


_MOMENTS: Final = frozenset(["date", "time", "timestamp", "timestamptz"])
INTENDED: Final[Mapping[str, Callable[[Difference], bool]]] = {
    "Debezium leaves out arrays of some types and of domains": lambda one: (
        one.what == "column" and one.theirs is None and _is_array(one)
    ),
    "Debezium writes the elements of arrays of domains as strings, if it does not leave them out": lambda one: (
        one.type.startswith("gen.") and one.type.endswith("[]") and one.what in ("schema", "value")
    ),
    "Avro defines a Point where it first occurs: with us in an array that Debezium leaves out": lambda one: (
        one.what == "schema" and one.type == "circle[]" and "connect.name" in json.dumps(one.theirs)
    ),
    "Debezium's snapshot reads generated columns, which its stream does not have": lambda one: (
        one.what == "column" and one.phase == "snapshot" and one.column == "twice" and one.ours is None
    ),
    "Debezium's snapshot reads rows of inheriting tables once more as rows of their parent": lambda one: (
        one.table == "base" and one.what == "record" and [each for each in one.theirs if "2" not in each] == one.ours
    ),
    "Debezium's key is the primary key, and null in deletes, where the replica identity is another index": lambda one: (
        one.table == "moving" and one.what in ("key", "headers") and "code" in str(one.ours)
    ),
    "Debezium does not know ean13": lambda one: _element(one) == "ean13",
    "Debezium reads the type name as null": lambda one: one.type == "name" and not one.theirs,
    "Debezium's schema of bit[] is that of bit": lambda one: one.type in ("bit(1)[]", "bit(12)[]"),
    "Debezium's arrays of some types have no null elements: it replaces the whole array by null": lambda one: (
        _is_array(one)
        and (
            (one.what == "value" and one.theirs is None)
            or (one.what == "schema" and _are_required(one.theirs, one.ours))
        )
    ),
    "Debezium does not find the labels of an array of a domain over an enum": lambda one: (
        one.what == "schema" and one.type == "gen.feeling[]"
    ),
    "Debezium's calendar in arrays is Java's, and it cuts times to milliseconds": lambda one: (
        one.what == "value" and _is_array(one) and _element(one) in _MOMENTS and isinstance(one.theirs, list)
    ),
    "Debezium's snapshot reads early and infinite dates in Java's calendar, unlike its stream": lambda one: (
        one.what == "value" and one.type == "date" and one.phase != "stream" and not _is_late(one.ours)
    ),
    "Debezium declares arrays with one dimension, and writes null or Java's toString for inner arrays": lambda one: (
        one.type.endswith("[][]") or (one.what == "value" and one.column.endswith("_nd"))
    ),
    "Debezium writes null for a large array or value that was not sent, if it has no placeholder": lambda one: (
        one.what == "value" and one.theirs is None and _is_placeholder(one.ours)
    ),
    "Debezium encodes the text of binary values in arrays": lambda one: one.what == "value" and one.type == "bytea[]",
    "Debezium writes the position of no transaction for incremental rows": lambda one: (
        one.what == "source" and one.phase == "incremental" and one.column in ("lsn", "sequence")
    ),
}
"""The reasons for which records may differ."""


TOPICS: Final[Mapping[str, str]] = {
    "parted": "Debezium's snapshot reads the rows of a partitioned table once more than those of its partitions"
}
"""Topics that only Debezium writes, with the reason."""


def _are_required(theirs: Any, ours: Any) -> bool:
    """Return whether two schemas of an array, of either converter, differ in that only our elements may be null."""
    if isinstance(theirs.get("items"), dict):
        return bool(theirs["items"] == {**ours["items"], "optional": False})
    left, right = json.dumps(theirs), json.dumps(ours)
    return '"items": ["null", ' in right and left == _ELEMENT.sub(r'"items": \1}', right)


_ELEMENT: Final = re.compile(r'"items": \["null", (.*)\]\}(?=\])')


def find_differences(theirs: Sequence[Comparable], ours: Sequence[Comparable], table: str) -> Iterator[Difference]:
    """Return all differences of one topic's records."""
    left, right = _in_order(theirs), _in_order(ours)
    if len(left) != len(right):
        yield Difference(table, "all", "record", "", "", [_brief(one) for one in left], [_brief(one) for one in right])
        return
    for one, other in zip(left, right, strict=True):
        yield from _of_records(one, other, table)


def _brief(record: Comparable) -> str:
    return f"{record[1] and record[1]['payload']}: {record[2] and record[2]['payload'].get('op')}"


def _phase(record: Comparable) -> str:
    payload = record[2]["payload"] if record[2] else {}
    if payload.get("op") != "r":
        return "stream"
    return "incremental" if payload["source"]["snapshot"] == "incremental" else "snapshot"


def _in_order(records: Sequence[Comparable]) -> list[Comparable]:
    """Return them with the rows that were read sorted: we read them in the order of the key."""
    ordered: list[Comparable] = []
    for phase in ("snapshot", "stream", "incremental"):
        part = [record for record in records if _phase(record) == phase]
        ordered += part if phase == "stream" else sorted(part, key=_sort_key)
    return ordered


def _sort_key(record: Comparable) -> str:
    return json.dumps((record[1] or {}).get("payload") or record[2]["payload"]["after"], sort_keys=True)


def _of_records(theirs: Comparable, ours: Comparable, table: str) -> Iterator[Difference]:
    phase = _phase(theirs)
    for what, place in (("key", 1), ("headers", 3)):
        if theirs[place] != ours[place]:
            yield Difference(table, phase, what, "", "", theirs[place], ours[place])
    if theirs[2] is None or ours[2] is None:
        if theirs[2] != ours[2]:
            yield Difference(table, phase, "record", "", "", _brief(theirs), _brief(ours))
        return
    left, right = theirs[2]["payload"], ours[2]["payload"]
    yield from _of_mappings(table, phase, "envelope", _outside(left), _outside(right))
    if "source" in left:
        yield from _of_mappings(table, phase, "source", _source(left, phase), _source(right, phase))
    for side in ("before", "after"):
        if (left.get(side) is None) != (right.get(side) is None):
            yield Difference(table, phase, "record", side, "", left.get(side), right.get(side))
        elif left.get(side) is not None:
            yield from _of_mappings(table, phase, "value", left[side], right[side])
    yield from _of_mappings(table, phase, "schema", _fields(theirs[2]["schema"]), _fields(ours[2]["schema"]))


def _outside(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name not in ("before", "after", "source")}


def _source(payload: Mapping[str, Any], phase: str) -> dict[str, Any]:
    """Return the source block. Rows have no transaction with us, and other places among the rows."""
    left_out = () if phase == "stream" else ("txId", "snapshot")
    return {name: value for name, value in payload["source"].items() if name not in left_out}


def _fields(schema: Any) -> dict[str, Any]:
    """Return the fields of the row's schema, of JsonConverter or Avro."""
    for field in schema["fields"]:
        if field.get("field") == "after":
            return {one["field"]: one for one in field["fields"]}
        if field.get("name") == "before":
            (record,) = (each for each in field["type"] if isinstance(each, dict))
            return {one["name"]: one for one in record["fields"]}
    return {}


def _of_mappings(
    table: str, phase: str, what: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]
) -> Iterator[Difference]:
    for name in sorted(theirs.keys() | ours.keys()):
        type_ = _COLUMNS[name].type if name in _COLUMNS else ""
        if name not in theirs or name not in ours:
            if what != "schema":
                yield Difference(table, phase, "column", name, type_, theirs.get(name), ours.get(name))
        elif _same(theirs[name], type_) != _same(ours[name], type_):
            yield Difference(table, phase, what, name, type_, theirs[name], ours[name])


def _same(value: Any, type_: str) -> str:
    """Return what is compared: pairs have no order."""
    if type_.startswith("hstore"):
        value = [_pairs(each) for each in value] if isinstance(value, list) else _pairs(value)
    return json.dumps(value, sort_keys=True)


def _pairs(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) and value.startswith("{") else value


def reason_of(difference: Difference) -> str | None:
    """Return why a difference is meant to be; None if it is not."""
    return next((reason for reason, applies in INTENDED.items() if applies(difference)), None)
