"""Many records at once through transforms and converter: the very bytes, offsets and errors of one at a time."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.connectors.api import Schema, SourceRecord, Struct
from ringfence.connectors.api.schemas import BYTES, INT8, INT64, STRING, optional
from ringfence.engine.spark.task_process import Conversion
from ringfence.fencing.records.record_path import RecordPath
from tests.support.examples import examples
from tests.support.record_paths import CONVERTERS, ROW, TRANSFORMS, OneByOne, configuration, rows, texts, went

mappings = st.dictionaries(st.sampled_from(["id", "name", "raw"]), st.none() | texts | st.integers(0, 9), max_size=3)
kinds: list[tuple[Schema | None, st.SearchStrategy[Any]]] = [
    (None, texts),
    (None, mappings),
    (None, rows),
    (None, st.none() | texts | st.integers() | rows | mappings | st.binary(max_size=3)),
    (STRING, texts),
    (STRING, st.none() | texts | st.integers()),
    (optional(STRING), st.none() | texts),
    (INT8, st.integers(-200, 200)),
    (INT64, st.integers(-(2**64), 2**64)),
    (BYTES, st.binary(max_size=4)),
    (ROW, rows),
    (ROW, st.none() | rows | st.just({"id": 1, "share": 0.5})),
]


@st.composite
def batches(draw: st.DrawFn) -> list[SourceRecord]:
    made: list[SourceRecord] = []
    partitions: list[dict[str, object]] = [{"p": 1}, {"p": 2}]
    for schema, values in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)):
        topic = draw(st.sampled_from(["t1", "t1", "t2"]))
        dressed = draw(st.booleans())
        for value in draw(st.lists(values, min_size=draw(st.sampled_from([1, 5, 5])), max_size=9)):
            more: dict[str, Any] = {}
            if dressed and draw(st.booleans()):
                more = {
                    "key": draw(st.none() | texts),
                    "headers": draw(st.sampled_from([(), [("h", "v")], [("n", 1)]])),
                    "timestamp": draw(st.none() | st.sampled_from([0, 1_700_000_000_000])),
                    "partition": draw(st.none() | st.just(2)),
                }
            source = draw(st.sampled_from(partitions))
            made.append(SourceRecord(source, {"at": len(made)}, topic, value, value_schema=schema, **more))
    return made


@settings(max_examples=examples(400))
@given(
    batches(), st.lists(st.sampled_from(sorted(TRANSFORMS)), max_size=3, unique=True), st.sampled_from(CONVERTERS),
    st.booleans(),
)  # fmt: skip
def test_columns_give_what_single_records_give(
    batch: list[SourceRecord], names: list[str], converter: str, schemas: bool
) -> None:
    config = configuration(names, converter, schemas)
    before = [repr((each.topic, each.value, each.value_schema, getattr(each.value, "values", 0))) for each in batch]
    expected = went(OneByOne(config), batch)
    assert went(Conversion(config), batch) == expected
    after = [repr((each.topic, each.value, each.value_schema, getattr(each.value, "values", 0))) for each in batch]
    assert after == before, "the connector's own records stay as they are"


def test_a_run_ends_where_the_schema_changes_and_a_null_field_takes_its_default() -> None:
    """What the test above finds seldom."""
    row = Struct(ROW, {"id": 1, "share": 0.5})
    batch = [SourceRecord({}, {"at": n}, "t1", "a", value_schema=STRING if n < 5 else None) for n in range(10)]
    batch += [SourceRecord({}, {"at": n}, "t1", row, value_schema=ROW) for n in range(10, 15)]
    for names in (["route"], ["replace"], ["insert"]):
        for converter in CONVERTERS:
            config = configuration(names, converter, True)
            here = batch if names == ["route"] else batch[10:]
            assert went(Conversion(config), here) == went(OneByOne(config), here)


@pytest.mark.parametrize(
    ("names", "taken"), [(["hoist", "insert", "replace", "route"], True), (["hoist", "mask"], False)]
)
def test_the_quick_way_is_really_taken(names: list[str], taken: bool) -> None:
    """Else the test above compares one way with itself."""
    convert = Conversion(configuration(names, CONVERTERS[0], True))
    if not taken:
        assert convert.column is None
        return
    asked = 0

    def one_by_one(topic: str, value: object, schema: Schema | None) -> bytes | None:
        nonlocal asked
        asked += 1
        return None

    convert.value = one_by_one
    records = [SourceRecord({}, {"at": n}, "t1", f"{n}", value_schema=STRING) for n in range(9)]
    prepared = RecordPath(convert).prepare(records)
    assert prepared.count == 9
    assert not asked
