"""A batch given by column: the very bytes, offsets and errors of its records one at a time."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ringfence.connectors.api import ColumnBatch, SourceRecord, Struct, StructBatch, ValueBatch
from ringfence.connectors.api.schemas import INT64, STRING, Schema
from ringfence.engine.spark.task_process import Conversion
from tests.support.record_paths import CONVERTERS, ROW, TRANSFORMS, OneByOne, configuration, rows, texts, went

PARTITION = {"url": "file:///in/a.parquet"}


def batch_of(values: Sequence[Struct]) -> StructBatch:
    columns = [list(column) for column in zip(*(value.values for value in values), strict=True)]
    return StructBatch(PARTITION, {"row": len(values), "done": True}, "t1", ROW, columns, lambda n: {"row": n + 1})


@settings(max_examples=300)
@given(
    st.lists(rows, min_size=1, max_size=12),
    st.lists(st.sampled_from(sorted(TRANSFORMS)), max_size=3, unique=True),
    st.sampled_from(CONVERTERS),
    st.booleans(),
)
def test_it_gives_what_its_records_give(values: list[Struct], names: list[str], converter: str, schemas: bool) -> None:
    config = configuration(names, converter, schemas)
    batch = batch_of(values)
    expected = went(OneByOne(config), list(batch))
    assert went(Conversion(config), batch) == expected
    assert went(OneByOne(config), batch) == expected
    assert went(Conversion(config), batch) == expected, "it is not used up"


plain_values = st.one_of(
    st.tuples(st.just(STRING), st.lists(texts | st.sampled_from(["\n", "a\nb", "\udcff"]), min_size=1, max_size=12)),
    st.tuples(st.just(STRING), st.lists(st.none() | texts, min_size=1, max_size=12)),
    st.tuples(st.just(INT64), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=12)),
    st.tuples(st.none(), st.lists(st.fixed_dictionaries({"a": st.integers(), "whole": texts}), min_size=1, max_size=9)),
    st.tuples(st.none(), st.lists(rows, min_size=1, max_size=9)),
    st.tuples(st.none(), st.lists(st.none() | st.binary(max_size=3), min_size=1, max_size=9)),
)


@settings(max_examples=300)
@example((STRING, ["a\nb", "", "\udcff", "c", "\n"]), 5, [], CONVERTERS[1], False)
@given(
    plain_values,
    st.none() | st.integers(1, 2**40),
    st.lists(st.sampled_from(sorted(TRANSFORMS)), max_size=3, unique=True),
    st.sampled_from(CONVERTERS),
    st.booleans(),
)
def test_values_give_what_their_records_give(
    column: tuple[Schema | None, list[object]], time_ms: int | None, names: list[str], converter: str, schemas: bool
) -> None:
    schema, values = column
    config = configuration(names, converter, schemas)
    last = {"line": len(values)}
    batch = ValueBatch(PARTITION, last, "t1", schema, values, lambda n: {"line": n + 1}, time_ms)
    records = [
        SourceRecord(PARTITION, {"line": number}, "t1", value, timestamp=time_ms, value_schema=schema)
        for number, value in enumerate(values, 1)
    ]
    expected = went(OneByOne(config), records)
    assert went(Conversion(config), batch) == expected
    assert went(OneByOne(config), batch) == expected
    assert went(Conversion(config), batch) == expected, "it is not used up"
    assert [vars_of(batch[place]) for place in range(-1, len(values))] == list(map(vars_of, [records[-1], *records]))


def vars_of(record: SourceRecord) -> list[object]:
    return [getattr(record, name) for name in SourceRecord.__slots__]


def test_it_is_the_sequence_of_its_records() -> None:
    batch = batch_of([Struct(ROW, {"id": number, "share": 0.5}) for number in range(5)])
    records = list(batch)
    offsets = [{"row": number} for number in range(1, 5)]
    assert [record.source_offset for record in records] == [*offsets, {"row": 5, "done": True}]
    assert [record.value["id"] for record in records if isinstance(record.value, Struct)] == [0, 1, 2, 3, 4]
    assert [record.source_offset for record in batch[1:3]] == [{"row": 2}, {"row": 3}]
    assert batch[-1].source_offset == {"row": 5, "done": True}
    with pytest.raises(IndexError):
        batch[5]


def test_no_record_is_made_where_columns_go_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above compare one way with itself."""
    batch = batch_of([Struct(ROW, {"id": number, "share": 0.5}) for number in range(5)])
    expected = went(OneByOne(configuration(["replace"], CONVERTERS[0], False)), batch)
    made: list[int] = []
    monkeypatch.setattr(ColumnBatch, "_record", lambda _, number: made.append(number))
    monkeypatch.setattr(ColumnBatch, "__iter__", lambda batch: map(made.append, range(len(batch))))
    assert went(Conversion(configuration([], CONVERTERS[0], False)), batch) != expected
    assert went(Conversion(configuration(["replace"], CONVERTERS[0], False)), batch)[0]  # type: ignore[index]
    assert not made


def test_no_record_is_made_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = ValueBatch(PARTITION, {"line": 5}, "t1", STRING, list("abcde"), lambda n: {"line": n + 1}, 1000)
    expected: list[tuple[object, ...]] = [("t1", each.encode(), None, -1, 1000, []) for each in "abcde"]
    made: list[int] = []
    monkeypatch.setattr(ColumnBatch, "_record", lambda _, number: made.append(number))
    monkeypatch.setattr(ColumnBatch, "__iter__", lambda batch: map(made.append, range(len(batch))))
    produced = went(Conversion(configuration([], CONVERTERS[1], False)), batch)
    assert produced == (expected, [(PARTITION, {"line": 5})], 5, {"t1"})
    assert went(Conversion(configuration(["hoist", "fixed"], CONVERTERS[0], True)), batch)[0]  # type: ignore[index]
    assert not made


def test_values_of_a_structs_schema_are_refused() -> None:
    with pytest.raises(ValueError, match="use StructBatch"):
        ValueBatch(PARTITION, {}, "t1", ROW, [], lambda _: {})


def test_columns_that_do_not_fit_the_schema_are_refused() -> None:
    with pytest.raises(ValueError, match="a column of the same length"):
        StructBatch(PARTITION, {}, "t1", ROW, [[1]], lambda _: {})
    columns: list[list[object]] = [[None] for _ in ROW.fields]
    with pytest.raises(ValueError, match="a column of the same length"):
        StructBatch(PARTITION, {}, "t1", ROW, [*columns[1:], []], lambda _: {})
