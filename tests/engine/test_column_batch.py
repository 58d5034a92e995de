"""A batch given by column: the very bytes, offsets and errors of its records one at a time."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ringfence.connectors.api import ColumnBatch, EncodedStrings, SourceRecord, Struct, StructBatch, ValueBatch
from ringfence.connectors.api.schemas import INT64, STRING, Schema
from ringfence.engine.spark.task_process import Conversion
from tests.support.examples import examples
from tests.support.record_paths import CONVERTERS, ROW, TRANSFORMS, OneByOne, configuration, rows, texts, went

PARTITION = {"url": "file:///in/a.parquet"}


def batch_of(values: Sequence[Struct]) -> StructBatch:
    columns = [list(column) for column in zip(*(value.values for value in values), strict=True)]
    return StructBatch(PARTITION, {"row": len(values), "done": True}, "t1", ROW, columns, lambda n: {"row": n + 1})


@settings(max_examples=examples(300))
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


class More(NamedTuple):
    """What a batch may have beside its values."""

    times: int | list[int | None] | None
    partition: int | None
    keys: list[object] | None
    headers: list[list[tuple[str, object]] | None] | None


def _column(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(of, min_size=12, max_size=12)


_header = st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3) | st.text(max_size=3) | st.integers())
more_columns = st.builds(
    More,
    st.none() | st.integers(1, 2**40) | _column(st.none() | st.integers(1, 2**40)),
    st.none() | st.integers(0, 9),
    st.none() | _column(st.none() | st.binary(max_size=3) | st.text(max_size=3)),
    st.none() | _column(st.none() | st.lists(_header, max_size=2)),
)
plain_values = st.one_of(
    st.tuples(st.just(STRING), st.lists(texts | st.sampled_from(["\n", "a\nb", "\udcff"]), min_size=1, max_size=12)),
    st.tuples(st.just(STRING), st.lists(st.none() | texts, min_size=1, max_size=12)),
    st.tuples(st.just(INT64), st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=12)),
    st.tuples(st.none(), st.lists(st.fixed_dictionaries({"a": st.integers(), "whole": texts}), min_size=1, max_size=9)),
    st.tuples(st.none(), st.lists(rows, min_size=1, max_size=9)),
    st.tuples(st.none(), st.lists(st.none() | st.binary(max_size=3), min_size=1, max_size=9)),
)


@settings(max_examples=examples(300))
@example((STRING, ["a\nb", "", "\udcff", "c", "\n"]), More(5, None, None, None), [], CONVERTERS[1], False)
@given(
    plain_values,
    more_columns,
    st.lists(st.sampled_from(sorted(TRANSFORMS)), max_size=3, unique=True),
    st.sampled_from(CONVERTERS),
    st.booleans(),
)
def test_values_give_what_their_records_give(
    column: tuple[Schema | None, list[object]], more: More, names: list[str], converter: str, schemas: bool
) -> None:
    schema, values = column
    config = configuration(names, converter, schemas)
    last, count = {"line": len(values)}, len(values)
    columns: list[Any] = [
        each[:count] if isinstance(each, list) else each for each in (more.times, more.keys, more.headers)
    ]
    times, keys, headers = columns
    batches = [
        ValueBatch(PARTITION, last, "t1", schema, held, lambda n: {"line": n + 1}, times, more.partition, keys, headers)
        for held in forms_of(values, schema)
    ]
    of_each = [each if isinstance(each, list) else [each] * count for each in columns]
    records = [
        SourceRecord(
            PARTITION,
            {"line": number},
            *("t1", value, key, pairs or (), time_ms, more.partition),
            value_schema=schema,
        )
        for number, (value, time_ms, key, pairs) in enumerate(zip(values, *of_each, strict=True), 1)
    ]
    expected = went(OneByOne(config), records)
    for batch in batches:
        assert went(Conversion(config), batch) == expected
        assert went(OneByOne(config), batch) == expected
        assert went(Conversion(config), batch) == expected, "it is not used up"
        places = range(-1, len(values))
        assert [vars_of(batch[place]) for place in places] == list(map(vars_of, [records[-1], *records]))


def forms_of(values: list[object], schema: Schema | None) -> Iterator[Sequence[object]]:
    """The values as they are, and strings as UTF-8, too, where that gives the same strings."""
    yield values
    if schema is STRING:
        with suppress(UnicodeEncodeError):
            held = EncodedStrings([str(each).encode("utf-8", "surrogateescape") for each in values])
            if [*held] == values:
                yield held


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


@pytest.mark.parametrize("lines", [["a", "", "ü€"], ["a\nb", "c"], [], ["\n"]])
def test_encoded_strings_are_the_sequence_of_their_strings(lines: list[str]) -> None:
    held = EncodedStrings([each.encode() for each in lines])
    assert ([*held], len(held)) == (lines, len(lines))
    assert [held[place] for place in range(-len(lines), len(lines))] == lines * 2
    assert [*held[1:]] == lines[1:]
    assert EncodedStrings([b"\xff"])[0].encode("utf-8", "surrogateescape") == b"\xff"


def test_strings_that_are_held_as_their_bytes_are_written_as_these(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [b"a", b"\xff", b"c\n", b"", "ü".encode()]
    held = EncodedStrings(lines)
    batch = ValueBatch(PARTITION, {"line": 5}, "t1", STRING, held, lambda n: {"line": n + 1}, 1000)
    monkeypatch.setattr(EncodedStrings, "__iter__", lambda _: pytest.fail("they became str"))
    monkeypatch.setattr(EncodedStrings, "__getitem__", lambda *_: pytest.fail("one became str"))
    expected: list[tuple[object, ...]] = [("t1", each, None, -1, 1000, []) for each in lines]
    produced = went(Conversion(configuration([], CONVERTERS[1], False)), batch)
    assert produced == (expected, [(PARTITION, {"line": 5})], 6, {"t1"})


def test_values_of_a_structs_schema_are_refused() -> None:
    with pytest.raises(ValueError, match="use StructBatch"):
        ValueBatch(PARTITION, {}, "t1", ROW, [], lambda _: {})


@pytest.mark.parametrize("what", ["timestamps", "keys", "headers"])
def test_columns_of_another_length_are_refused(what: str) -> None:
    with pytest.raises(ValueError, match=f"a batch of 2 values has 1 {what}: give one for each value"):
        ValueBatch(PARTITION, {}, "t1", STRING, ["a", "b"], lambda _: {}, **{what: [None]})  # type: ignore[arg-type]


def test_columns_that_do_not_fit_the_schema_are_refused() -> None:
    with pytest.raises(ValueError, match="a column of the same length"):
        StructBatch(PARTITION, {}, "t1", ROW, [[1]], lambda _: {})
    columns: list[list[object]] = [[None] for _ in ROW.fields]
    with pytest.raises(ValueError, match="a column of the same length"):
        StructBatch(PARTITION, {}, "t1", ROW, [*columns[1:], []], lambda _: {})
