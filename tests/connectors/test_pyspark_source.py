"""PySparkSource with data sources of PySpark: rows once, whatever is killed in between."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import EntryPoint
from typing import Any, ClassVar, NamedTuple

import numpy
import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.types import Row, StructType

from ringfence.connectors.api import ConnectorError, DataException, OffsetRecord, Struct, UnreadableRecord
from ringfence.connectors.builtin.pyspark_source import task
from ringfence.connectors.builtin.pyspark_source.connector import PySparkSourceConnector
from ringfence.connectors.builtin.pyspark_source.task import PySparkSourceTask
from ringfence.connectors.builtin.pyspark_source.types import describe, parse_ddl
from tests.connectors.fakes import FakeContext, FakeOffsets

AVAILABLE: dict[str, int] = {"rows": 0}
TOLD: list[dict[str, int]] = []


class Simple(DataSource):
    """Numbers, as many as there are at the time of the question."""

    @classmethod
    def name(cls) -> str:
        return "simple"

    def schema(self) -> str:
        return "n bigint"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        return SimpleReader(int(self.options.get("first", "0")))


class SimpleReader(SimpleDataSourceStreamReader):
    def __init__(self, first: int) -> None:
        self.first = first

    def initialOffset(self) -> dict[str, int]:
        return {"next": self.first}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        end = min(start["next"] + 3, AVAILABLE["rows"])
        return iter([(n,) for n in range(start["next"], end)]), {"next": max(end, start["next"])}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:
        raise AssertionError("what is replayed is read again from its beginning")

    def commit(self, end: dict[str, int]) -> None:
        TOLD.append(end)


class Range(InputPartition):
    def __init__(self, low: int, high: int) -> None:
        super().__init__((low, high))
        self.low, self.high = low, high


class Wide(DataSource):
    """The same numbers, divided into parts."""

    parts: ClassVar[int] = 4

    @classmethod
    def name(cls) -> str:
        return "wide"

    def schema(self) -> StructType:
        return parse_ddl("n bigint not null")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return WideReader()


class WideReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:
        return {"next": AVAILABLE["rows"]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Range]:
        low, high = start["next"], end["next"]
        step = max(1, -(-(high - low) // Wide.parts))
        return [Range(at, min(at + step, high)) for at in range(low, high, step)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        assert isinstance(partition, Range)
        return iter([(n,) for n in range(partition.low, partition.high)])

    def commit(self, end: dict[str, int]) -> None:
        TOLD.append(end)


class Batches(DataSource):
    def schema(self) -> str:
        return "n int"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    here = __name__
    points = [
        EntryPoint(cls.__name__.lower(), f"{here}:{cls.__name__}", "g")
        for cls in (Simple, Wide, Batches, Listed, Remote)
    ]
    points.append(EntryPoint("wrong", f"{here}:AVAILABLE", "g"))
    monkeypatch.setattr(task, "entry_points", lambda group: points)
    AVAILABLE["rows"] = 0
    TOLD.clear()


class Seen:
    """Rows and the offset as they would be committed."""

    def __init__(self) -> None:
        self.numbers: list[object] = []
        self.offset: Mapping[str, object] | None = None

    def run(self, source: str, polls: int, *, commits: bool = True, **options: str) -> "Seen":
        """An attempt from the committed offset on, killed after so many polls."""
        task = PySparkSourceTask()
        known = [({"data_source": source}, self.offset)] if self.offset else []
        task.context = FakeContext(FakeOffsets(known))
        task.start({"data.source": source, "topic": "t", **{f"option.{key}": one for key, one in options.items()}})
        for _ in range(polls):
            for record in task.poll() or ():
                if not isinstance(record, OffsetRecord):
                    assert isinstance(record.value, Struct)
                    self.numbers.append(record.value["n"])
                self.offset = record.source_offset
            if commits:
                task.commit()
        task.stop()
        return self


@pytest.mark.parametrize("source", ["simple", "wide"])
def test_a_kill_after_any_batch_neither_loses_nor_doubles_while_rows_arrive(source: str) -> None:
    seen = Seen()
    for rows in (0, 1, 7, 7, 20, 20, 20, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 31):
        AVAILABLE["rows"] = rows
        seen.run(source, polls=1)
    assert seen.numbers == list(range(31))
    assert seen.offset == {"offset": {"next": 31}}
    assert Seen().run(source, polls=30).numbers == list(range(31))


def test_a_plan_holds_although_more_rows_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    AVAILABLE["rows"] = 8
    seen = Seen().run("wide", polls=2)
    assert seen.offset == {"from": {"next": 0}, "to": {"next": 8}, "partitions": 4, "read": 1}
    AVAILABLE["rows"] = 100
    assert seen.run("wide", polls=3).numbers == list(range(8))
    seen.run("wide", polls=2)
    monkeypatch.setattr(Wide, "parts", 7)
    with pytest.raises(ConnectorError, match="into 4 partitions before, but into 7 now"):
        seen.run("wide", polls=1)


@pytest.mark.parametrize("source", ["simple", "wide"])
def test_the_reader_is_told_what_is_committed_and_never_more(source: str) -> None:
    AVAILABLE["rows"] = 3
    Seen().run(source, polls=6, commits=False)
    assert TOLD == []
    Seen().run(source, polls=6)
    assert TOLD == [{"next": 3}]


def test_options_reach_the_data_source() -> None:
    AVAILABLE["rows"] = 9
    assert Seen().run("simple", polls=3, first="7").numbers == [7, 8]


def test_what_validation_says() -> None:
    def error(source: str, **options: str) -> str:
        found = PySparkSourceConnector().validate(
            {"data.source": source, **{f"option.{key}": one for key, one in options.items()}}
        )
        return "".join(found.get("data.source", ()))

    assert error("simple") == error("wide") == ""
    assert "Existing ones: batches, listed, remote, simple, wide, wrong" in error("os.system")
    assert "has neither streamReader nor simpleStreamReader" in error("batches")
    assert "is not a class" in error("wrong")
    assert "refuses these options: ValueError" in error("simple", first="x")


def test_types() -> None:
    columns = parse_ddl(
        "flag boolean, n decimal(9, 2) not null, `a day`: date, at timestamp, tags array<string>,"
        " inner struct<x: int, at: timestamp>, counts map<string, long>"
    )
    row = describe(columns)
    at = datetime(2026, 3, 1, 12, 0, 0, 5, UTC)
    micros = int(at.timestamp()) * 1_000_000 + 5
    made = row.make((True, Decimal("1.25"), date(2026, 3, 1), at, ["a", None], (1, at), {"k": 2}))
    values: dict[str, Any] = dict(zip(made.schema.names, made.values, strict=True))
    inner = values.pop("inner")
    assert list(inner.values) == [1, micros]
    assert values == {
        "flag": True,
        "n": Decimal("1.25"),
        "a day": date(2026, 3, 1),
        "at": micros,
        "tags": ["a", None],
        "counts": {"k": 2},
    }
    with pytest.raises(DataException, match="the row has 1 values for 7 columns"):
        row.make((True,))


ROWS: list[object] = []


class Listed(DataSource):
    """The rows of `ROWS`."""

    def schema(self) -> str:
        return "n bigint not null, tag string, price decimal(38, 18), at timestamp"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        return ListedReader()


class ListedReader(SimpleDataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Any], dict[str, int]]:
        return iter(ROWS[start["next"] :]), {"next": len(ROWS)}


def read_listed(*rows: object) -> list[Any]:
    ROWS[:] = rows
    task = PySparkSourceTask()
    task.context = FakeContext()
    task.start({"data.source": "listed", "topic": "t"})
    return list(task.poll() or ())


def test_rows_whose_fields_differ_in_type_are_refused_alone() -> None:
    good = (1, "a", Decimal("9" * 20 + "." + "9" * 18), None)
    records = read_listed(
        good,
        ("1", "a", None, None),
        (1.5, "a", None, None),
        (None, "a", None, None),
        (2**63, "a", None, None),
        (True, "a", None, None),
        (2, ["a"], None, None),
        (2, "a", Decimal("NaN"), None),
        (2, "a", Decimal("1e-19"), None),
        (2, "a", 0.5, None),
        (2, "a", None, "2024-01-02"),
        (2, "a"),
        {"n": 1, "tag": "a", "price": None, "at": None},
        "four",
        5,
        Row(n=1, tag="a", price=None, wrong=None),
        good,
    )
    first, *refused, last = records
    assert first.value["price"] == last.value["price"] == Decimal("9" * 20 + "." + "9" * 18)
    assert all(each.source_offset == {"offset": {"next": len(records)}} for each in records)
    columns = ["n"] * 5 + ["tag"] + ["price"] * 3 + ["at"] + [""] * 5
    for number, (record, column) in enumerate(zip(refused, columns, strict=True), 2):
        assert isinstance(record, UnreadableRecord)
        place = f'The data source listed, row {number} of those up to {{"offset": {{"next": {len(records)}}}}}'
        assert str(record.error).startswith(f"{place}, column {column}: " if column else f"{place}: "), number
    assert "the value is a str" in str(refused[0].error).lower()
    assert refused[0].value == '{"n":"1","tag":"a","price":null,"at":null}'


def test_rows_that_spark_accepts_are_accepted() -> None:
    """Named rows by their names; named tuples, as all others, by their order; values as Spark converts them."""
    at = datetime(2026, 3, 1, tzinfo=UTC)

    class Named(NamedTuple):
        at: object
        tag: object
        n: object
        price: object

    records = read_listed(
        Row(tag="b", at=at, price=Decimal("1.5"), n=2),
        Named(3, "c", Decimal("0"), at),
        [4.0, 5, 6, None],
        (numpy.int32(7), True, None, None),
    )
    assert [[record.value[name] for name in ("n", "tag", "price")] for record in records] == [
        [2, "b", Decimal("1.5")],
        [3, "c", Decimal("0")],
        [4, "5", Decimal("6")],
        [7, "true", None],
    ]
    assert records[0].value["at"] == records[1].value["at"] == 1_772_323_200_000_000


@pytest.mark.parametrize("text", ["n", "n wrong", "n int,", "n array<int", "n decimal(9", "", "n int not x", "a;b int"])
def test_a_schema_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConnectorError, match="cannot be read as columns"):
        parse_ddl(text)


def test_offsets_by_hand_are_checked() -> None:
    connector = PySparkSourceConnector()
    good = {"data_source": "simple"}
    assert connector.alter_offsets({}, [(good, {"offset": {"next": 1}}), (good, None)])
    with pytest.raises(ConnectorError, match="must have an object"):
        connector.alter_offsets({}, [(good, {"offset": 5})])
    with pytest.raises(ConnectorError, match="must have the name"):
        connector.alter_offsets({}, [({}, None)])


class Remote(Simple):
    """Reaches a server for its first position, which is not there."""

    @classmethod
    def name(cls) -> str:
        return "remote"

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        return RemoteReader(0)


class RemoteReader(SimpleReader):
    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize(("source", "columns"), [("simple", "1 column: n"), ("wide", "1 column: n")])
def test_a_test_of_the_connection_shows_the_columns(source: str, columns: str) -> None:
    examination = PySparkSourceConnector().examine({"data.source": source})
    assert examination.errors == {}
    assert examination.summary == f"{source}, {columns}."
    assert TOLD == [], "nothing counts as read"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "Installed here: batches, listed, remote, simple, wide, wrong."),
        ({"data.source": "nowhere"}, "no installed package has an entry point 'nowhere'"),
        ({"data.source": "simple", "option.first": "x"}, "refuses these options: ValueError"),
        ({"data.source": "remote"}, "Nothing listens at the source of remote: the connection is refused."),
    ],
)
def test_a_test_of_the_connection_says_what_is_wrong(config: dict[str, str], words: str) -> None:
    examination = PySparkSourceConnector().examine(config)
    assert list(examination.errors) == ["data.source"]
    assert words in examination.errors["data.source"][0]
