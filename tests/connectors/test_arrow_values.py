"""Parquet's values of every Arrow type, the whole domain of each, compared with what Arrow itself reads of the file."""

import io
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isnan
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringfence.connectors.api import DistantDate, DistantTimestamp, Schema, SchemaType, Struct
from ringfence.connectors.api.schemas import fit
from ringfence.connectors.builtin.spark_table import settings as names
from ringfence.connectors.builtin.spark_table.task import SparkTableSourceTask
from ringfence.testing.oddities import UNSUPPORTED, Kind, oddities
from tests.connectors.fakes import FakeContext, FakeOffsets
from tests.support.examples import examples
from tests.support.file_runs import Committed, parquet, read, read_restarted, reasons, rows

pytestmark = pytest.mark.usefixtures("temporary_roots")

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - Arrow's timestamps without a zone are naive


def same(number: object) -> object:
    return number


def as_date(day: int) -> object:
    try:
        return date(1970, 1, 1) + timedelta(days=day)
    except OverflowError:
        return DistantDate(day)


def as_timestamp(unit: int) -> Callable[[int], object]:
    """unit: how many milliseconds."""

    def convert(number: int) -> object:
        try:
            return EPOCH + timedelta(milliseconds=number * unit)
        except OverflowError:
            return DistantTimestamp(number * unit)

    return convert


NUMBERS: list[tuple[Any, st.SearchStrategy[int], Callable[[int], object], str | None]] = [
    (pa.int8(), st.integers(-128, 127), same, None),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1), same, None),
    (pa.int32(), INT32, same, None),
    (pa.int64(), INT64, same, None),
    (pa.uint8(), st.integers(0, 255), same, None),
    (pa.uint16(), st.integers(0, 2**16 - 1), same, None),
    (pa.uint32(), st.integers(0, 2**32 - 1), same, None),
    (pa.uint64(), st.integers(0, 2**64 - 1), Decimal, "Decimal"),
    (pa.date32(), INT32, as_date, "Date"),
    (pa.timestamp("ms"), INT64, as_timestamp(1), "Timestamp"),
    (pa.timestamp("us"), INT64, same, "MicroTimestamp"),
    (pa.timestamp("ns"), INT64, same, "NanoTimestamp"),
    (pa.timestamp("us", "Europe/Oslo"), INT64, same, "MicroTimestamp"),
    (pa.time64("us"), INT64, same, "MicroTime"),
    (pa.time64("ns"), INT64, same, "NanoTime"),
    (pa.duration("s"), INT64, same, "SecondDuration"),
    (pa.duration("ms"), INT64, same, "MilliDuration"),
    (pa.duration("us"), INT64, same, "MicroDuration"),
    (pa.duration("ns"), INT64, same, "NanoDuration"),
]


@pytest.mark.parametrize(("type", "domain", "expected", "name"), NUMBERS, ids=lambda each: str(each)[:20])
@given(data=st.data())
@settings(max_examples=examples(15), deadline=None)
def test_every_number_of_a_type(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    type: Any,
    domain: st.SearchStrategy[int],
    expected: Callable[[int], object],
    name: str | None,
) -> None:
    numbers = data.draw(st.lists(st.none() | domain, min_size=1, max_size=6))
    width = pa.int32() if type in (pa.date32(),) else pa.int64()
    plain = pa.types.is_integer(type)
    column = pa.array(numbers, type) if plain else pa.array(numbers, width).view(type)
    committed = read(tmp_path_factory.mktemp("numbers"), "a", parquet(column), "parquet")
    assert [row[0] for row in rows(committed)] == [None if each is None else expected(each) for each in numbers]
    schema = schema_of(committed)
    assert (schema.name or "").rpartition(".")[2] == (name or "")
    for row in rows(committed):
        fit(schema, row[0])


@pytest.mark.parametrize("number", [-(2**63), 2**63 - 1])
@pytest.mark.parametrize(("unit", "expected"), [("ms", as_timestamp(1)), ("us", same), ("ns", same)])
def test_the_least_and_the_greatest_timestamp(
    tmp_path: Path, unit: str, expected: Callable[[int], object], number: int
) -> None:
    column = pa.array([number], pa.int64()).view(pa.timestamp(unit))

    committed = read(tmp_path, "a", parquet(column), "parquet")

    assert rows(committed) == [[expected(number)]]


def schema_of(committed: Committed) -> Schema:
    value = committed.values[0]
    assert isinstance(value, Struct)
    schema = value.schema.fields[0].schema
    assert schema.optional
    return schema


@given(
    numbers=st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=5), zone=st.sampled_from(["UTC", "Mars/Base"])
)
@settings(max_examples=examples(20), deadline=None)
def test_a_zone_that_nobody_knows_changes_no_timestamp(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], zone: str
) -> None:
    column = pa.array(numbers, pa.int64()).view(pa.timestamp("ms", zone))
    found = [row[0] for row in rows(read(tmp_path_factory.mktemp("zones"), "a", parquet(column), "parquet"))]
    naive = [each.replace(tzinfo=None) if isinstance(each, datetime) else each for each in found]
    assert naive == list(map(as_timestamp(1), numbers))


OTHERS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.string(), st.text()),
    (pa.large_string(), st.text()),
    (pa.string_view(), st.text()),
    (pa.dictionary(pa.int32(), pa.string()), st.text()),
    (pa.binary(), st.binary()),
    (pa.large_binary(), st.binary()),
    (pa.binary_view(), st.binary()),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.list_(pa.int32()), st.lists(st.none() | INT32, max_size=4)),
    (pa.large_list(pa.string()), st.lists(st.none() | st.text(max_size=3), max_size=4)),
    (pa.list_view(pa.int32()), st.lists(st.none() | INT32, max_size=4)),
    (pa.list_(pa.int32(), 2), st.lists(INT32, min_size=2, max_size=2)),
    (pa.list_(pa.list_(pa.bool_())), st.lists(st.none() | st.lists(st.booleans(), max_size=2), max_size=3)),
    (pa.map_(pa.string(), pa.int32()), st.dictionaries(st.text(max_size=3), st.none() | INT32, max_size=3)),
    (pa.map_(pa.int32(), pa.list_(pa.int8())), st.dictionaries(INT32, st.lists(st.integers(0, 9)), max_size=3)),
    (
        pa.struct([("a", pa.int32()), ("l", pa.list_(pa.struct([("b", pa.string())])))]),
        st.fixed_dictionaries(
            {"a": st.none() | INT32, "l": st.none() | st.lists(st.none() | st.just({"b": "x"}), max_size=2)}
        ),
    ),
]


@pytest.mark.parametrize(("type", "domain"), OTHERS, ids=lambda each: str(each)[:30])
@given(data=st.data(), batch=st.integers(1, 4))
@settings(max_examples=examples(12), deadline=None)
def test_every_value_of_other_types(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, batch: int, type: Any, domain: st.SearchStrategy[Any]
) -> None:
    values = data.draw(st.lists(st.none() | domain, min_size=1, max_size=6))
    content = parquet(pa.array(values, type), row_group_size=2)
    maps = "strict" if pa.types.is_map(type) else None
    own = pyarrow.parquet.read_table(io.BytesIO(content)).column("a").to_pylist(maps_as_pydicts=maps)
    committed = read_restarted(tmp_path_factory.mktemp("others"), "a", content, "parquet", batch)
    found = [without_structs(row[0]) for row in rows(committed)]
    assert [_comparable(each) for each in found] == [_comparable(each) for each in own]
    for row in rows(committed):
        fit(schema_of(committed), row[0])


def without_structs(value: object) -> object:
    if isinstance(value, Struct):
        return {key: without_structs(each) for key, each in zip(value.schema.names, value.values, strict=True)}
    if isinstance(value, list):
        return [without_structs(each) for each in value]
    return value


def _comparable(value: object) -> object:
    return "NaN" if isinstance(value, float) and isnan(value) else value


@given(bits=st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=8))
@settings(max_examples=examples(20), deadline=None)
def test_every_half_float(tmp_path_factory: pytest.TempPathFactory, bits: list[int]) -> None:
    column = pa.array(bits, pa.uint16()).view(pa.float16())
    committed = read(tmp_path_factory.mktemp("halves"), "a", parquet(column), "parquet")
    widened = column.cast(pa.float64()).to_pylist()
    assert [_comparable(row[0]) for row in rows(committed)] == [_comparable(each) for each in widened]
    assert all(type(row[0]) is float for row in rows(committed))


@given(data=st.data(), precision=st.integers(1, 76))
@settings(max_examples=examples(60), deadline=None)
def test_every_decimal(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, precision: int) -> None:
    scale = data.draw(st.integers(0, precision))
    digits = data.draw(st.lists(st.integers(1 - 10**precision, 10**precision - 1), min_size=1, max_size=4))
    numbers = [Decimal(f"{each}e-{scale}") for each in digits]
    type = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    committed = read(tmp_path_factory.mktemp("decimals"), "a", parquet(pa.array(numbers, type)), "parquet")
    assert [str(row[0]) for row in rows(committed)] == [str(each) for each in numbers]
    assert schema_of(committed).parameters == {"scale": str(scale)}


@given(numbers=st.lists(INT32, min_size=1, max_size=5))
@settings(max_examples=examples(30), deadline=None)
def test_every_time_of_milliseconds(tmp_path_factory: pytest.TempPathFactory, numbers: list[int]) -> None:
    """Arrow makes 01:00 of 25:00, and says nothing."""
    folder = tmp_path_factory.mktemp("times")
    content = parquet(pa.array(numbers, pa.int32()).view(pa.time32("ms")))
    good = [number for number in numbers if 0 <= number < 86_400_000]
    committed = read(folder, "a", content, "parquet")
    assert [row[0] for row in rows(committed)] == [(EPOCH + timedelta(milliseconds=each)).time() for each in good]
    assert len(reasons(committed)) == len(numbers) - len(good)
    nulls = read(folder, "a", content, "parquet", unsupported_value_handling_mode="null")
    assert sum(row == [None] for row in rows(nulls)) == len(numbers) - len(good)
    texts = read(folder, "a", content, "parquet", unsupported_value_handling_mode="text")
    assert schema_of(texts).type is SchemaType.STRING


def test_a_time_as_text(tmp_path: Path) -> None:
    column = pa.array([86_400_000, 1, -1], pa.int32()).view(pa.time32("ms"))
    texts = read(tmp_path, "a", parquet(column), "parquet", unsupported_value_handling_mode="text")
    assert rows(texts) == [["24:00:00.000"], ["00:00:00.001"], ["-00:00:00.001"]]


def test_unsigned_integers_as_longs(tmp_path: Path) -> None:
    content = parquet(pa.array([1, 2**64 - 1, None], pa.uint64()))
    more = {"bigint.unsigned.handling.mode": "long"}
    committed = read(tmp_path, "a", content, "parquet", **more)
    assert rows(committed) == [[1], [None]]
    assert "File a, row 2, column a: " in reasons(committed)[0]
    assert rows(read(tmp_path, "a", content, "parquet", unsupported_value_handling_mode="null", **more))[1] == [None]
    texts = read(tmp_path, "a", content, "parquet", unsupported_value_handling_mode="text", **more)
    assert rows(texts) == [["1"], [str(2**64 - 1)], [None]]


def test_uuid_json_and_other_extensions(tmp_path: Path) -> None:
    number = UUID(int=7)
    assert rows(read(tmp_path, "a", parquet(pa.array([number.bytes, None], pa.uuid())), "parquet")) == [
        [str(number)],
        [None],
    ]
    assert rows(read(tmp_path, "a", parquet(pa.array(['{"a": 1}'], pa.json_())), "parquet")) == [['{"a": 1}']]
    assert rows(read(tmp_path, "a", parquet(pa.array([1, 0], pa.int8()).cast(pa.bool8())), "parquet")) == [
        [True],
        [False],
    ]
    nested = pa.ListArray.from_arrays([0, 1], pa.array([number.bytes], pa.uuid()))
    assert rows(read(tmp_path, "a", parquet(nested), "parquet")) == [[[str(number)]]]


def test_columns_of_nulls(tmp_path: Path) -> None:
    committed = read(tmp_path, "a", parquet(pa.array([None, None])), "parquet")
    assert rows(committed) == [[None], [None]]
    assert schema_of(committed).type is SchemaType.STRING


def test_of_a_key_that_a_map_has_twice_the_last_value_counts(tmp_path: Path) -> None:
    column = pa.array([[("a", 1), ("b", 2), ("a", 3)]], pa.map_(pa.string(), pa.int32()))
    assert rows(read(tmp_path, "a", parquet(column), "parquet")) == [[{"a": 3, "b": 2}]]


def test_a_map_with_structs_as_keys_is_a_list(tmp_path: Path) -> None:
    column = pa.array([[({"x": 1}, 2)], None], pa.map_(pa.struct([("x", pa.int8())]), pa.int32()))
    committed = read(tmp_path, "a", parquet(column), "parquet")
    assert [without_structs(row[0]) for row in rows(committed)] == [[{"key": {"x": 1}, "value": 2}], None]


MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))  # noqa: DTZ001 - as Arrow's


@given(moments=st.lists(st.none() | MOMENTS, min_size=1, max_size=5), batch=st.integers(1, 3))
@settings(max_examples=examples(40), deadline=None)
def test_int96_timestamps_never_wrap(
    tmp_path_factory: pytest.TempPathFactory, moments: list[datetime | None], batch: int
) -> None:
    folder = tmp_path_factory.mktemp("int96")
    content = int96(pa.array(moments, pa.timestamp("us")))
    micros = [None if each is None else (each - EPOCH) // timedelta(microseconds=1) for each in moments]
    assert [row[0] for row in rows(read(folder, "a", content, "parquet"))] == micros
    more = {"parquet.int96.unit": "nanoseconds"}
    committed = read_restarted(folder, "a", content, "parquet", batch, **more)
    near = [each for each in micros if each is None or abs(each) < 9_223_372_036_853_000]
    assert [row[0] for row in rows(committed)] == [None if each is None else each * 1000 for each in near]
    assert all("parquet.int96.unit" in reason for reason in reasons(committed))
    assert len(committed.refused) == len(moments) - len(near)
    more = {"parquet.int96.unit": "milliseconds"}
    found = [row[0] for row in rows(read(folder, "a", content, "parquet", **more))]
    floors = [None if each is None else each.replace(microsecond=each.microsecond // 1000 * 1000) for each in moments]
    assert found == floors


def int96(column: Any) -> bytes:
    return parquet(column, use_deprecated_int96_timestamps=True, row_group_size=2)


def test_int96_timestamps_in_lists_and_structs(tmp_path: Path) -> None:
    inner = pa.struct([("x", pa.int8()), ("at", pa.list_(pa.timestamp("us")))])
    far, near = datetime(9999, 12, 31), datetime(2020, 1, 1)  # noqa: DTZ001 - as Arrow's
    values = [{"x": 1, "at": [near, far]}, {"x": 2, "at": [near]}, None, {"x": 3, "at": [far]}]
    more = {"parquet.int96.unit": "nanoseconds"}
    committed = read(tmp_path, "a", int96(pa.array(values, inner)), "parquet", **more)
    nanos = int((near - EPOCH).total_seconds()) * 10**9
    assert [without_structs(row[0]) for row in rows(committed)] == [{"x": 2, "at": [nanos]}, None]
    nulls = read(
        tmp_path, "a", int96(pa.array(values, inner)), "parquet", unsupported_value_handling_mode="null", **more
    )
    assert [row[0] is None for row in rows(nulls)] == [True, False, True, True]


@pytest.mark.parametrize(
    ("kind", "type"),
    [
        (Kind.INTEGER, pa.int64()),
        (Kind.DECIMAL, pa.decimal256(76, 18)),
        (Kind.REAL, pa.float32()),
        (Kind.DOUBLE, pa.float64()),
        (Kind.BOOLEAN, pa.bool_()),
        (Kind.TEXT, pa.string()),
        (Kind.BYTES, pa.binary()),
        (Kind.DATE, pa.date32()),
        (Kind.TIME, pa.time32("ms")),
        (Kind.TIMESTAMP, pa.timestamp("ms")),
    ],
)
def test_values_that_all_sources_share(tmp_path: Path, kind: Kind, type: Any) -> None:
    expected = [each.value for each in oddities(kind) if each.value is not UNSUPPORTED]
    if kind is Kind.DECIMAL:
        expected = [each for each in expected if isinstance(each, Decimal) and abs(each) < 10**58]
    column = pa.array([_in_arrow(each) for each in expected], pa.int64() if kind is Kind.TIMESTAMP else None)
    if kind is Kind.DATE:
        column = pa.array([_in_arrow(each) for each in expected], pa.int32())
    column = column.view(type) if kind in (Kind.DATE, Kind.TIMESTAMP) else column.cast(type)
    found = [row[0] for row in rows(read(tmp_path, "a", parquet(column), "parquet"))]
    wanted = [each.replace(tzinfo=None) if isinstance(each, datetime) else each for each in expected]
    assert [_comparable(each) for each in found] == [_comparable(each) for each in wanted]


def _in_arrow(value: object) -> object:
    if isinstance(value, DistantDate):
        return value.days
    if isinstance(value, DistantTimestamp):
        return value.milliseconds
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - EPOCH) // timedelta(milliseconds=1)
    return (value - EPOCH.date()).days if isinstance(value, date) else value


# SparkTableSource's tables of Parquet files


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_a_table_of_parquet_files_refuses_rows_too(tmp_path: Path, batch: int) -> None:
    texts = pa.array([b"\xff" if number == 4 else b"x" for number in range(9)]).view(pa.string())
    numbers = pa.array(range(9))
    folder = tmp_path / "day=1"
    folder.mkdir()
    pyarrow.parquet.write_table(pa.table({"n": numbers, "a": texts}), folder / "a.parquet", row_group_size=4)
    committed = Committed(tolerant=True)
    for _ in range(30):
        task = SparkTableSourceTask()
        task.context = FakeContext(FakeOffsets(committed.known()))
        config = {"url": f"file://{tmp_path}", "topic": "t", "batch.size": str(batch), "part.rows": "100"}
        task.start({**config, names.SHARE: "0/1"})
        committed.take(task.poll())
        task.stop()
    assert rows(committed) == [[number, "x", "1"] for number in range(9) if number != 4]
    assert len(committed.refused) == 1
    assert "File day=1/a.parquet, row 5, column a: " in str(committed.refused[0].error)
    assert committed.refused[0].value == r'{"n":4,"a":"\\xff","day":"1"}'
