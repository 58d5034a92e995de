"""A batch given by column: the very bytes, offsets and errors of its records one at a time."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.connectors.api import Struct, StructBatch
from ringfence.engine.spark.task_process import Conversion
from tests.support.record_paths import CONVERTERS, ROW, TRANSFORMS, OneByOne, configuration, rows, went

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
    monkeypatch.setattr(StructBatch, "_record", lambda _, number: made.append(number))
    assert went(Conversion(configuration([], CONVERTERS[0], False)), batch) != expected
    assert went(Conversion(configuration(["replace"], CONVERTERS[0], False)), batch)[0]  # type: ignore[index]
    assert not made


def test_columns_that_do_not_fit_the_schema_are_refused() -> None:
    with pytest.raises(ValueError, match="a column of the same length"):
        StructBatch(PARTITION, {}, "t1", ROW, [[1]], lambda _: {})
    columns: list[list[object]] = [[None] for _ in ROW.fields]
    with pytest.raises(ValueError, match="a column of the same length"):
        StructBatch(PARTITION, {}, "t1", ROW, [*columns[1:], []], lambda _: {})
