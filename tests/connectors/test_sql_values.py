"""SqlSource on SQLite, where any column may hold integers, reals, texts and blobs, whatever its type's name."""

import math
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ringfence.connectors.api import ConnectorError, DataException, DistantDate, DistantTimestamp, UnreadableRecord
from ringfence.connectors.api.schemas import fit
from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from ringfence.connectors.builtin.sql.sqlite_values import SqliteValues, text_of
from ringfence.connectors.builtin.sql.task import SqlSourceTask
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.unsupported_values import Handling
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.testing.oddities import UNSUPPORTED as NOT_HELD
from ringfence.testing.oddities import Kind, oddities
from tests.connectors.fakes import FakeContext
from tests.support.sql_runs import Seen, Sqlite, poll

HANDLING = "unsupported.value.handling.mode"
UNSUPPORTED = object()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Sqlite]:
    former = worker_limits.current()
    worker_limits.declare(WorkerLimits((str(tmp_path),)))
    made = Sqlite(tmp_path / "database.sqlite")
    yield made
    made.connection.close()
    worker_limits.declare(former)


def column(sqlite: Sqlite, **more: str) -> list[object]:
    """The values of v, an error for a row that cannot be read."""
    config = sqlite.config("incrementing", incrementing_column_name="id", **more)
    return [record.error if isinstance(record, UnreadableRecord) else record.value["v"] for record in poll(config)]


SECOND = 1_704_164_645
"""2024-01-02 03:04:05 UTC."""
MOMENT = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)

VALUES: dict[str, list[tuple[object, object]]] = {
    "TIMESTAMP": [
        ("2024-01-02 03:04:05", MOMENT),
        ("2024-01-02 03:04:05.678", MOMENT.replace(microsecond=678_000)),
        ("2024-01-02T03:04:05Z", MOMENT),
        ("2024-01-02T05:04:05+02:00", MOMENT),
        ("2024-01-01 21:34:05 -05:30", MOMENT),
        ("2024-01-02 03:04", MOMENT.replace(second=0)),
        ("2024-01-02", datetime(2024, 1, 2, tzinfo=UTC)),
        ("0000-01-01 00:00:00", DistantTimestamp(-62_167_219_200_000)),
        (SECOND * 1000 + 678, MOMENT.replace(microsecond=678_000)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-1, datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
        (2**63 - 1, DistantTimestamp(2**63 - 1)),
        (2460311.5, datetime(2024, 1, 2, tzinfo=UTC)),
        (2460311.75, datetime(2024, 1, 2, 6, tzinfo=UTC)),
        (1e300, UNSUPPORTED),
        (math.inf, UNSUPPORTED),
        ("", UNSUPPORTED),
        ("yesterday", UNSUPPORTED),
        ("2024-02-30", UNSUPPORTED),
        ("2024-01-02 25:00:00", UNSUPPORTED),
        (b"2024-01-02", UNSUPPORTED),
        (None, None),
    ],
    "DATE": [
        ("2024-01-02", date(2024, 1, 2)),
        ("2024-01-02 00:00:00", date(2024, 1, 2)),
        ("2024-01-02T00:00:00.000Z", date(2024, 1, 2)),
        ("2024-01-02 03:04:05", UNSUPPORTED),
        (1_704_153_600_000, date(2024, 1, 2)),
        (SECOND * 1000, UNSUPPORTED),
        (2460311.5, date(2024, 1, 2)),
        (2460311.75, UNSUPPORTED),
        (253_402_300_800_000, DistantDate(2_932_897)),
        (2**63 - 1 - (2**63 - 1) % 86_400_000, UNSUPPORTED),
        ("", UNSUPPORTED),
        (None, None),
    ],
    "TIME": [
        ("03:04:05", time(3, 4, 5)),
        ("03:04", time(3, 4)),
        ("03:04:05.678901", time(3, 4, 5, 678_901)),
        (11_045_000, time(3, 4, 5)),
        ("24:00:00", UNSUPPORTED),
        (86_400_000, UNSUPPORTED),
        (-1, UNSUPPORTED),
        ("2024-01-02 03:04:05", UNSUPPORTED),
        ("1970-01-01 03:04:05", time(3, 4, 5)),
        ("", UNSUPPORTED),
        (None, None),
    ],
    "DECIMAL(38, 2)": [
        ("9" * 38, Decimal("1" + "0" * 38 + ".00")),  # SQLite made it a real
        (0.1 + 0.2, Decimal("0.30")),
        (12.5, Decimal("12.50")),
        (7, Decimal("7.00")),
        (-(2**63), Decimal("-9223372036854775808.00")),
        (12.345, UNSUPPORTED),
        (math.inf, UNSUPPORTED),
        ("", UNSUPPORTED),
        ("1,50", UNSUPPORTED),
        (b"\x00", UNSUPPORTED),
        (None, None),
    ],
    "NUMERIC": [(2.5, "2.5"), (1e38, "1e+38"), (7, "7"), ("x", "x"), (math.inf, "Infinity"), (None, None)],
    "INTEGER": [
        (5, 5),
        (2**63 - 1, 2**63 - 1),
        (1.5, UNSUPPORTED),
        ("abc", UNSUPPORTED),
        (b"1", UNSUPPORTED),
        ("12", 12),
    ],
    "SMALLINT": [(2**40, 2**40)],
    "REAL": [(1.5, 1.5), (3, 3.0), (math.inf, math.inf), ("abc", UNSUPPORTED), (b"1", UNSUPPORTED)],
    "BOOLEAN": [
        (1, True),
        (0, False),
        (5, True),
        ("TRUE", True),
        ("false", False),
        ("yes", UNSUPPORTED),
        (0.5, UNSUPPORTED),
    ],
    "TEXT": [("é\x00x", "é\x00x"), (5, "5"), (b"text", "text"), (b"\xff", UNSUPPORTED), (None, None)],
    "BLOB": [(b"\x00\xff", b"\x00\xff"), ("text", b"text"), (5, b"5"), (None, None)],
    "JSON": [('{"a": 1}', '{"a": 1}'), ("null", "null")],
    "": [(5, "5"), (2.5, "2.5"), ("x", "x"), (b"text", "text"), (b"\x00\xff", "X'00FF'"), (None, None)],
}


@pytest.mark.parametrize("kind", VALUES)
def test_each_value(sqlite: Sqlite, kind: str) -> None:
    sqlite.run(f"create table t (id integer primary key, v {kind})")
    for number, (value, _) in enumerate(VALUES[kind]):
        sqlite.run("insert into t values (?, ?)", number, value)
    for number, ((value, right), read) in enumerate(zip(VALUES[kind], column(sqlite), strict=True)):
        if right is not UNSUPPORTED:
            assert (type(read), read) == (type(right), right), value
            continue
        assert str(read).startswith(f"The table t, row id={number}, column v: "), value
        assert HANDLING in str(read), value
    as_null = column(sqlite, **{HANDLING.replace(".", "_"): "null"})
    assert as_null == [None if right is UNSUPPORTED else right for _, right in VALUES[kind]]
    as_text = column(sqlite, **{HANDLING.replace(".", "_"): "text"})
    if kind != "BLOB":
        stored = [row[0] for row in sqlite.connection.execute("select v from t order by id")]
        assert as_text == [None if value is None else text_of(value) for value in stored]


TYPES = {
    Kind.INTEGER: "bigint",
    Kind.DOUBLE: "double precision",
    Kind.TEXT: "text",
    Kind.BYTES: "blob",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.JSON: "text",
    Kind.UUID: "uuid",
}
"""Types whose values SQLite, too, has."""
LOST = ("NaN", "-0")
"""SQLite stores null and 0."""


@pytest.mark.parametrize("kind", TYPES)
def test_each_odd_value(sqlite: Sqlite, kind: Kind) -> None:
    values = [each for each in oddities(kind) if each.value is not NOT_HELD and each.literal not in LOST]
    values = [each for each in values if not isinstance(each.value, DistantDate | DistantTimestamp)]
    sqlite.run(f"create table t (id integer primary key, v {TYPES[kind]})")
    as_text = kind in (Kind.DATE, Kind.TIMESTAMP)
    for number, oddity in enumerate(values):
        sqlite.run("insert into t values (?, ?)", number, oddity.literal if as_text else oddity.value)
    for oddity, read in zip(values, column(sqlite), strict=True):
        assert (type(read), str(read)) == (type(oddity.value), str(oddity.value)), oddity


def test_seconds_if_the_url_says_so(sqlite: Sqlite) -> None:
    sqlite.run("create table t (id integer primary key, v timestamp)")
    sqlite.run("insert into t values (1, ?)", SECOND)
    url = {"connection_url": f"jdbc:sqlite:{sqlite.path}?date_precision=seconds"}
    assert column(sqlite, **url) == [MOMENT]
    assert column(sqlite) == [datetime(1970, 1, 20, 17, 22, 44, 645_000, tzinfo=UTC)]
    wrong = sqlite.config("bulk", connection_url=f"jdbc:sqlite:{sqlite.path}?date_precision=days")
    assert "date_precision must be" in SqlSourceConnector().validate(wrong)["connection.url"][0]


def test_text_that_is_not_utf8(sqlite: Sqlite) -> None:
    sqlite.run("create table t (id integer primary key, v text)")
    sqlite.run("insert into t values (1, 'a'), (2, cast(x'ff61' as text)), (3, 'b')")
    first, bad, last = column(sqlite)
    assert (first, last) == ("a", "b")
    assert str(bad).startswith("The table t, row id=2, column v: the text is not in UTF-8")
    assert column(sqlite, **{HANDLING.replace(".", "_"): "null"}) == ["a", None, "b"]


def test_a_bad_row_is_one_unreadable_record_and_its_offset_is_committed(sqlite: Sqlite) -> None:
    sqlite.run("create table t (id integer primary key, v timestamp)")
    sqlite.run("insert into t values (1, '2024-01-02'), (2, ''), (3, '2024-01-03')")
    config = sqlite.config("incrementing", incrementing_column_name="id")
    records = poll(config)
    assert [each.source_offset for each in records] == [{"incrementing": number} for number in (1, 2, 3)]
    assert isinstance(records[1], UnreadableRecord)
    assert records[1].value == '{"id":2,"v":""}'
    assert records[1].topic == "db.t"


def test_a_name_with_a_space_has_a_topic(sqlite: Sqlite) -> None:
    sqlite.run('create table "Order Items" (id integer primary key)')
    sqlite.run('insert into "Order Items" values (1)')
    config = sqlite.config("bulk", tables='[[null, "Order Items"]]', table_whitelist="Order Items")
    assert SqlSourceConnector().validate(config) == {}
    (record,) = poll(config)
    assert (record.topic, record.source_partition["table"]) == ("db.Order_Items", "Order Items")
    sqlite.run("create table Order_Items (id integer primary key)")
    both = sqlite.config("bulk", table_whitelist="Order Items,Order_Items")
    assert "would have one topic, db.Order_Items" in SqlSourceConnector().validate(both)["topic.prefix"][0]
    connector = SqlSourceConnector()
    with pytest.raises(ConnectorError, match="would have one topic"):
        connector.start(both)


ORDERED: list[list[object]] = [
    ["2024-01-02 03:04:05", "2024-01-02 03:04:06", "2024-01-02 03:04:06", "2024-01-02 03:04:07"],
    ["2024-01-02 03:04:05.25", "2024-01-02 03:04:05.50", "2024-01-02 03:04:05.50", "2024-01-02 03:04:06.00"],
    ["2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z", "2024-01-02T03:04:06Z", "2024-01-03T03:04:05Z"],
    ["", "2024-01-02T03:04:05Z", "2024-01-02 04:04:05", "2024-01-02 03:04:06-02:00", "2024-01-02 05:04:07"],
    ["x", "", b"x", 0, 1, 1, 2440587.5 + 1, "1970-01-03", "1970-01-03 00:00:00.000", "1970-01-03 00:00:00.001"],
    ["2024-01-02 03:04:05", "2024-01-02 03:04:05.0", "2024-01-02 03:04:05.000000", "2024-01-02 03:04:06"],
    [1_704_164_645_000, 1_704_164_645_001, 1_704_164_645_001, 1_704_164_646_000],
]


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize(
    ("zone", "times"),
    [
        *(("UTC", times) for times in ORDERED),
        # Texts with and without a time zone have another order there.
        *(("Asia/Kolkata", times) for times in ORDERED if not any(str(each).endswith("-02:00") for each in times)),
    ],
)
def test_each_row_once_in_the_order_of_its_times(sqlite: Sqlite, times: list[object], mode: str, zone: str) -> None:
    sqlite.run("create table t (id integer primary key, v timestamp)")
    for number, value in enumerate(times):
        sqlite.run("insert into t values (?, ?)", number, value)
    sqlite.run("insert into t values (90, null), (91, '9999-01-01 00:00:00')")
    config = sqlite.config(
        mode,
        timestamp_column_name="v",
        incrementing_column_name="id",
        validate_non_null="false",
        batch_max_rows="1",
        db_timezone=zone,
        unsupported_value_handling_mode="null",
    )
    seen = Seen()
    for _ in range(len(times) + 2):  # killed after every batch
        seen.run(config, polls=1)
    assert sorted(map(int, map(str, seen.column("id")))) == list(range(len(times)))
    if mode != "timestamp":
        assert max(seen.batches) == 1
    assert seen.run(config, polls=3).batches[-3:] == [0, 0, 0]


def test_a_row_of_another_form_is_noticed_and_none_is_lost(sqlite: Sqlite) -> None:
    """Texts of one form are compared as such; one of another form is met later."""
    sqlite.run("create table t (id integer primary key, v timestamp)")
    sqlite.run("insert into t values (1, '2024-01-02 03:04:05')")
    config = sqlite.config("timestamp", timestamp_column_name="v", validate_non_null="false")
    task = SqlSourceTask()
    task.context = FakeContext()
    task.start(config)

    def ids() -> list[object]:
        task._readings[0].due = 0.0
        records: Sequence[Any] = task.poll() or ()
        return [record.value["id"] for record in records]

    assert ids() == [1]
    sqlite.run("insert into t values (2, '2024-01-02T03:04:06Z')")
    assert ids() == [2]
    sqlite.run("insert into t values (3, '2024-01-02 03:04:07'), (4, '2024-01-02T03:04:08Z'), (5, 1704164649000)")
    assert ids() == [3, 4, 5]
    assert ids() == []
    task.stop()


def test_numbers_that_are_none_end_the_task(sqlite: Sqlite) -> None:
    sqlite.run("create table t (id integer, v text)")
    sqlite.run("insert into t values (1, 'a'), ('x', 'b')")
    config = sqlite.config("incrementing", incrementing_column_name="id", validate_non_null="false")
    with pytest.raises(ConnectorError, match="The column id, which rows are ordered by"):
        Seen().run(config)


anything = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.datetimes().map(str),
    st.dates().map(str),
    st.times().map(str),
)
KINDS = ("boolean", "real", "date", "time_of_day", "timestamp", "binary", "text", "other", "decimal_as_text")


@given(value=anything, kind=st.sampled_from(KINDS), zone=st.sampled_from([UTC]))
@example(value=2.0806633505350878e300, kind="date", zone=UTC)
def test_any_value_is_converted_or_refused(value: object, kind: str, zone: Any) -> None:
    values = SqliteValues(Handling.FAIL, zone)
    described = getattr(values, kind)()
    if value is None or described.value_of is None:
        return
    try:
        converted = described.value_of(value)
    except DataException as error:
        refused = error
    else:
        assert fit(described.schema, converted) is not None
        return
    assert described.partial
    assert refused.settings == (HANDLING,)
    assert described.text_of is not None
    assert isinstance(described.text_of(value), str)


@given(value=anything, scale=st.integers(0, 20))
def test_any_value_becomes_an_exact_decimal_or_is_refused(value: object, scale: int) -> None:
    value_of = SqliteValues(Handling.FAIL, UTC).decimal(scale).value_of
    assert value_of is not None
    if value is None:
        return
    try:
        converted = value_of(value)
    except DataException:
        return
    assert isinstance(converted, Decimal)
    assert converted.as_tuple().exponent == -scale
    if isinstance(value, int):
        assert converted == value
    if isinstance(value, float):
        assert format(float(converted), ".15g") == format(value, ".15g")


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))  # noqa: DTZ001 - as text
def test_texts_mean_what_sqlite_says(moment: datetime) -> None:
    connection = sqlite3.connect(":memory:")
    text = moment.isoformat(sep=" ", timespec="milliseconds")
    ((seconds,),) = connection.execute("select unixepoch(?)", (text,))
    connection.close()
    read = SqliteValues(Handling.FAIL, UTC).odd_timestamp(text)
    assert isinstance(read, datetime)
    assert (read - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1) == seconds
