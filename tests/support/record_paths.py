"""Sends records through a path, and says what was produced."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

from hypothesis import strategies as st

from ringfence.connectors.api import SourceRecord, Struct
from ringfence.connectors.api.schemas import BYTES, FLOAT64, INT64, STRING, TIMESTAMP, decimal, optional, struct
from ringfence.engine.spark.task_process import Conversion
from ringfence.fencing.records.prepared_batch import GatheredOffsets
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.transactions.record_columns import RecordColumns

JAVA = "org.apache.kafka.connect."


ROW = struct(
    {
        "id": INT64,
        "name": optional(STRING),
        "kind": STRING.but(default="plain"),
        "price": optional(decimal(2)),
        "at": optional(TIMESTAMP),
        "raw": optional(BYTES),
        "share": FLOAT64,
    },
    "row",
)


TRANSFORMS = {
    "hoist": {"type": "HoistField$Value", "field": "whole"},
    "insert": {
        "type": "InsertField$Value",
        "static.field": "origin",
        "static.value": "here",
        "topic.field": "from",
        "timestamp.field": "made?",
        "partition.field": "place",
    },
    "fixed": {"type": "InsertField$Value", "static.field": "fixed!", "static.value": "ü"},
    "replace": {"type": "ReplaceField$Value", "renames": "name:called,whole:all", "exclude": "raw"},
    "include": {"type": "ReplaceField$Value", "include": "id,kind,origin", "replace.null.with.default": "false"},
    "route": {"type": "RegexRouter", "regex": "t(.)", "replacement": "to-$1"},
    "mask": {"type": "MaskField$Value", "fields": "name"},
    "key": {"type": "HoistField$Key", "field": "k"},
}


CONVERTERS = ("json.JsonConverter", "storage.StringConverter", "converters.ByteArrayConverter")


texts = st.text(max_size=8) | st.sampled_from(["\ud800", "\x01", "\U0001f600"])


rows = st.builds(
    lambda *values: Struct(ROW, dict(zip(ROW.names, values, strict=True))),
    st.integers(-(2**63), 2**63 - 1),
    st.none() | texts,
    st.none() | texts,
    st.none() | st.sampled_from([Decimal("1.50"), Decimal("-0.01")]),
    st.none() | st.just(datetime(2026, 1, 2, tzinfo=UTC)),
    st.none() | st.binary(max_size=4),
    st.floats(),
)


class Given(NamedTuple):
    """What a conversion is made of."""

    connector_config: Mapping[str, str]
    worker_settings: Mapping[str, str]


class OneByOne(Conversion):
    """The same without columns."""

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        self.column = None


def went(convert: Conversion, batch: Sequence[SourceRecord]) -> object:
    """What was produced with which offsets, or what was raised. Records are in order within their topic and
    partition.
    """
    path, offsets = RecordPath(convert), GatheredOffsets()
    columns: list[RecordColumns] = []
    try:
        prepared = path.prepare(batch)
    except Exception as error:
        return type(error), str(error)
    path.send(prepared, columns.append, offsets)
    whole = [(*each[:5], list(each[5] or ())) for part in columns for each in part.records()]
    whole.sort(key=lambda each: (each[0], each[3]))  # stable
    return whole, offsets.take(), path.bytes, prepared.topics


def configuration(names: Sequence[str], converter: str, schemas: bool) -> Given:
    config = {
        "key.converter": f"{JAVA}storage.StringConverter",
        "value.converter": JAVA + converter,
        "transforms": ",".join(names),
    }
    if "Json" in converter:
        config["value.converter.schemas.enable"] = str(schemas).lower()
    for name in names:
        for key, value in TRANSFORMS[name].items():
            config[f"transforms.{name}.{key}"] = f"{JAVA}transforms.{value}" if key == "type" else value
    return Given(config, {})
