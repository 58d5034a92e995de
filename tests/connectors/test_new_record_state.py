"""ExtractNewRecordState does what Debezium's transform of that name does with the same events.

Expected results were read from `io.debezium.transforms.ExtractNewRecordState` 3.7.0 in a JVM.
"""

import json
from typing import Any

import pytest

from ringfence.connectors.api import ConfigException, Schema, SourceRecord, Struct
from ringfence.connectors.api.schemas import INT32, INT64, STRING, optional, struct
from ringfence.connectors.columns import column_of
from ringfence.connectors.converters.json_converter import JsonConverter
from ringfence.connectors.transforms.new_record_state import ExtractNewRecordState

ROW = struct(
    {"id": INT32, "v": optional(STRING), "d": STRING.but(optional=True, default="def")}, "p.s.t.Value", optional=True
)
SOURCE = struct({"lsn": optional(INT64), "table": STRING, "ts_ms": INT64}, "io.debezium.connector.postgresql.Source")
BLOCK = struct({"id": STRING}, "event.block", optional=True)
EVENT = struct(
    {"before": ROW, "after": ROW, "source": SOURCE, "transaction": BLOCK, "op": STRING, "ts_ms": optional(INT64)},
    "p.s.t.Envelope",
    version=2,
)
KEY = struct({"id": INT32}, "p.s.t.Key")
PLAIN = {"id": 1, "d": "def"}
ALL_FIELDS = "op,table,source.lsn,source.ts_ms,transaction.id:txid,ts_ms,nope"
ADDED = {"__table": "t", "__source_lsn": 7, "__source_ts_ms": 5, "__txid": None, "__ts_ms": 9}
MODE = "delete.tombstone.handling.mode"
DROPPED = "dropped"


def event(op: str, before: str | None, after: str | None) -> SourceRecord:
    rows = [None if v is None else {"id": 1, "v": v} for v in (before, after)]
    values = {"before": rows[0], "after": rows[1], "op": op, "ts_ms": 9}
    value = Struct(EVENT, {**values, "source": {"lsn": 7, "table": "t", "ts_ms": 5}})
    return SourceRecord({}, {}, "p.s.t", value, Struct(KEY, {"id": 1}), (), None, None, KEY, EVENT)


EVENTS = {
    "c": event("c", None, "a"),
    "u": event("u", "a", "b"),
    "d": event("d", "b", None),
    "tombstone": SourceRecord({}, {}, "p.s.t", None, Struct(KEY, {"id": 1}), (), None, None, KEY),
    "t": event("t", None, None),
    "other": SourceRecord({}, {}, "other", "x", None, (), None, None, None, STRING),
}


def transform(**settings: str) -> ExtractNewRecordState:
    made = ExtractNewRecordState()
    made.configure({name.replace("_", "."): value for name, value in settings.items()})
    return made


def shown(record: SourceRecord | None) -> Any:
    if record is None:
        return DROPPED
    value, schema = record.value, record.value_schema
    return _payload(value, schema) if value is not None or schema is None else ("null of", schema.name, schema.optional)


def _payload(value: object, schema: Schema | None) -> Any:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    raw = converter.from_record("t", value, schema)
    return None if raw is None else json.loads(raw)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"d": ("null of", "p.s.t.Value", True), "tombstone": DROPPED}),
        ({MODE: "drop"}, {"d": DROPPED, "tombstone": DROPPED}),
        ({MODE: "delete-to-tombstone"}, {"d": None, "tombstone": DROPPED}),
        ({MODE: "rewrite"}, {"tombstone": DROPPED}),
        ({MODE: "rewrite-with-tombstone"}, {"tombstone": None}),
        ({"add.fields": ALL_FIELDS}, {"d": ("null of", "p.s.t.Value", True), "tombstone": DROPPED}),
        ({MODE: "rewrite", "add.fields": "op", "add.fields.prefix": "x."}, {"tombstone": DROPPED}),
    ],
)
def test_events_become_what_debezium_makes_of_them(settings: dict[str, str], expected: dict[str, Any]) -> None:
    made = transform(**settings)
    found = {name: shown(made.apply(record)) for name, record in EVENTS.items()}
    assert found["t"] == DROPPED
    assert found["other"] == "x"
    for op, v, deleted in (("c", "a", "false"), ("u", "b", "false"), ("d", "b", "true")):
        wanted = {**PLAIN, "v": v}
        if settings.get(MODE, "").startswith("rewrite"):
            wanted["__deleted"] = deleted
        elif op == "d":
            continue
        if settings.get("add.fields") == ALL_FIELDS:
            wanted |= {"__op": op, **ADDED}
        elif "add.fields" in settings:
            wanted["x.op"] = op
        assert found[op] == wanted
    for name, value in expected.items():
        assert found[name] == value, name


def test_schemas_headers_and_topics() -> None:
    made = transform(add_headers="op,source.lsn", route_by_field="v", add_fields="source.lsn")
    out = made.apply(EVENTS["u"])
    assert out is not None
    assert out.topic == "b"
    assert [(name, value.value) for name, value in out.headers] == [("__op", "u"), ("__source_lsn", 7)]  # type: ignore[attr-defined]
    schema = out.value_schema
    assert schema is not None
    assert (schema.name, schema.optional, schema.names) == ("p.s.t.Value", False, ("id", "v", "d", "__source_lsn"))
    assert EVENTS["u"].topic == "p.s.t", "the connector's own record stays as it is"


@pytest.mark.parametrize("settings", [{}, {"add_fields": ALL_FIELDS}, {MODE: "rewrite"}])
def test_columns_give_what_single_records_give(settings: dict[str, str]) -> None:
    made = transform(**settings)
    records = [EVENTS["c"], EVENTS["u"]] * 3
    column = column_of(records)
    assert column is not None
    assert made.apply_column(column)
    single = [made.apply(record) for record in records]
    assert column.schema is not None
    assert column.whole() == [record.value for record in single if record is not None]
    assert not made.apply_column(column_of([EVENTS["d"]]) or column), "deletes go their own way"


def test_what_it_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigException, match="ReplaceField"):
        transform(drop_fields_header_name="h")
