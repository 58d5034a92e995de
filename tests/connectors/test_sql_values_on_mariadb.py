"""SqlSource and SparkTableSource on a real MariaDB: each type, with the values that few tables hold."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest

from ringfence.connectors.api import DistantDate, DistantTimestamp, UnreadableRecord
from ringfence.connectors.api.schemas import BYTES, INT8
from ringfence.connectors.builtin.sql.connector import SqlSourceConnector
from ringfence.testing.oddities import UNSUPPORTED as NOT_HELD
from ringfence.testing.oddities import Kind, oddities
from tests.support.mariadb import MariaDb, mariadb
from tests.support.mariadb_tables import config_of, of_query, schema_of
from tests.support.mariadb_tables import spark_table_config as spark_config_of
from tests.support.spark_table_reader import Reader
from tests.support.sql_runs import Seen, poll

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("loopback_egress")]

HANDLING = "unsupported.value.handling.mode"
UNSUPPORTED = object()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """One that accepts dates with zeros."""
    with mariadb(tmp_path_factory.mktemp("mariadb"), {"sql-mode": ""}) as made:
        yield made


POINT = bytes.fromhex("000000000101000000000000000000f03f0000000000000040")

VALUES: dict[str, list[tuple[str, object]]] = {
    "decimal(65, 30)": [(f"'{'9' * 35}.{'9' * 30}'", Decimal(f"{'9' * 35}.{'9' * 30}")), ("-1e-30", Decimal("-1E-30"))],
    "decimal(38, 0) unsigned": [(f"'{'9' * 38}'", Decimal("9" * 38))],
    "bigint unsigned": [("18446744073709551615", Decimal(18446744073709551615)), ("0", Decimal(0))],
    "date": [
        ("'2024-01-02'", date(2024, 1, 2)),
        ("'9999-12-31'", date(9999, 12, 31)),
        ("'0001-01-01'", date(1, 1, 1)),
        ("'0000-00-00'", UNSUPPORTED),
        ("'2024-00-10'", UNSUPPORTED),
        ("'2024-05-00'", UNSUPPORTED),
    ],
    "datetime(6)": [
        ("'2024-01-02 03:04:05.000001'", datetime(2024, 1, 2, 3, 4, 5, 1, UTC)),
        ("'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)),
        ("'0000-00-00 00:00:00'", UNSUPPORTED),
        ("'2024-00-10 01:02:03'", UNSUPPORTED),
    ],
    "timestamp(3) null": [
        ("'2024-01-02 03:04:05.678'", datetime(2024, 1, 2, 3, 4, 5, 678_000, UTC)),
        ("'0000-00-00 00:00:00'", UNSUPPORTED),
    ],
    "time(6)": [
        ("'03:04:05.000001'", time(3, 4, 5, 1)),
        ("'23:59:59.999999'", time(23, 59, 59, 999_999)),
        ("'24:00:00'", UNSUPPORTED),
        ("'838:59:59'", UNSUPPORTED),
        ("'-00:00:01'", UNSUPPORTED),
        ("'-838:59:59'", UNSUPPORTED),
    ],
    "year": [("2024", "2024"), ("'0000'", "0")],
    "bit(1)": [("b'1'", 1), ("b'0'", 0)],
    "bit(12)": [("b'100000000001'", b"\x08\x01")],
    "set('a','b','c')": [("'c,a'", "a,c"), ("''", "")],
    "enum('x','y z')": [("'y z'", "y z"), ("'none'", "")],
    "json": [('\'{"a": 1.50, "a": 2}\'', '{"a": 1.50, "a": 2}'), ("'null'", "null")],
    "point": [("point(1, 2)", POINT)],
    "geometry": [("point(1, 2)", POINT)],
    "binary(3)": [("x'01'", b"\x01\x00\x00")],
    "varbinary(9)": [("x'ff00'", b"\xff\x00"), ("''", b"")],
    "longblob": [("x'ff'", b"\xff")],
    "uuid": [("'00000000-0000-0000-0000-0000000000ff'", "00000000-0000-0000-0000-0000000000ff")],
    "inet6": [("'2001:db8::1'", "2001:db8::1")],
    "text character set latin1": [("'é'", "é")],
    "double": [("1.7976931348623157e308", 1.7976931348623157e308), ("-0e0", -0.0)],
    "tinyint": [("-128", -128)],
    "mediumint unsigned": [("16777215", 16777215)],
    "int unsigned": [("4294967295", 4294967295)],
}


@pytest.mark.parametrize("kind", VALUES)
def test_each_value(server: MariaDb, kind: str) -> None:
    name = "t_" + "".join(filter(str.isalnum, kind))
    values = VALUES[kind]
    server.run(f"CREATE TABLE {name} (id int AUTO_INCREMENT PRIMARY KEY, v {kind})")
    server.run(*(f"INSERT INTO {name} (v) VALUES ({literal})" for literal, _ in values))
    server.run(f"INSERT INTO {name} (v) VALUES (NULL)") if kind != "timestamp(3) null" else None
    config = config_of(server, name, "incrementing", incrementing_column_name="id")
    for each in (config, of_query(config, f"SELECT * FROM {name}")):
        assert SqlSourceConnector().validate(each) == {}
        records = poll(each)
        for number, (record, (literal, right)) in enumerate(zip(records, values, strict=False), 1):
            if right is UNSUPPORTED:
                assert isinstance(record, UnreadableRecord), literal
                assert f"row id={number}, column v: the " in str(record.error).replace("without a key", "id=1")
                assert HANDLING in str(record.error)
            else:
                read = record.value["v"]
                assert (type(read), read) == (type(right), right), literal
        as_null = Seen().run({**each, HANDLING: "null"}, polls=1).column("v")
        assert as_null[: len(values)] == [None if right is UNSUPPORTED else right for _, right in values]
    assert schema_of(config) == schema_of(of_query(config, f"SELECT * FROM {name}"))
    reader = Reader({**spark_config_of(server, name), HANDLING: "null"})
    while not reader.live(4).waits:
        pass
    in_spark = [row["v"] for row in sorted(reader.rows, key=lambda row: int(str(row["id"])))]
    assert in_spark == as_null


TYPES = {
    Kind.INTEGER: "bigint",
    Kind.TEXT: "longtext character set utf8mb4",
    Kind.BYTES: "longblob",
    Kind.DATE: "date",
    Kind.TIME: "time(6)",
    Kind.TIMESTAMP: "datetime(6)",
    Kind.JSON: "json",
    Kind.UUID: "uuid",
}
"""Types whose values MariaDB, too, has."""


@pytest.mark.parametrize("kind", TYPES)
def test_each_odd_value(server: MariaDb, kind: Kind) -> None:
    values = [each for each in oddities(kind) if each.value is not NOT_HELD]
    values = [each for each in values if not isinstance(each.value, DistantDate | DistantTimestamp)]
    name = f"odd_{kind}"
    server.run(f"CREATE TABLE {name} (id int AUTO_INCREMENT PRIMARY KEY, v {TYPES[kind]})")
    as_text = kind not in (Kind.INTEGER, Kind.BYTES)
    with closing(server.connect()) as connection:
        for oddity in values:
            value = oddity.literal if as_text else oddity.value
            connection.cursor().execute(f"INSERT INTO {name} (v) VALUES (%s)", (value,))
    config = config_of(server, name, "incrementing", incrementing_column_name="id")
    for oddity, read in zip(values, Seen().run(config, polls=1).column("v"), strict=True):
        assert (type(read), read) == (type(oddity.value), oddity.value), oddity


@pytest.mark.parametrize("kind", ["date", "datetime(6)", "timestamp(3) null", "time(6)"])
def test_times_as_text_are_the_databases_own(server: MariaDb, kind: str) -> None:
    name = "text_" + "".join(filter(str.isalnum, kind))
    server.run(f"CREATE TABLE {name} (id int AUTO_INCREMENT PRIMARY KEY, v {kind})")
    server.run(*(f"INSERT INTO {name} (v) VALUES ({literal})" for literal, _ in VALUES[kind]))
    with closing(server.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT concat(v) FROM {name} ORDER BY id")
        expected = [row[0] for row in cursor.fetchall()]
    config = config_of(server, name, "incrementing", incrementing_column_name="id")
    assert Seen().run({**config, HANDLING: "text"}, polls=1).column("v") == expected


def test_bits_are_bytes_and_one_bit_is_a_number(server: MariaDb) -> None:
    server.run("CREATE TABLE bits (id int PRIMARY KEY, a bit NOT NULL, b bit(9) NOT NULL)")
    config = config_of(server, "bits", "bulk")
    assert [each.schema for each in schema_of(config)][1:] == [INT8, BYTES]


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("handling", ["null", "text"])
def test_dates_of_zeros_come_first_and_each_row_once(server: MariaDb, mode: str, handling: str) -> None:
    name = f"zeros_{mode.replace('+', '_')}_{handling}"
    server.run(
        f"CREATE TABLE {name} (id int AUTO_INCREMENT PRIMARY KEY, v datetime(6))",
        f"INSERT INTO {name} (v) VALUES ('2024-01-02 03:04:05.000001'), ('2024-01-02 03:04:05.000002'),"
        " ('0000-00-00 00:00:00'), ('0000-00-00 00:00:00'), (NULL), ('9999-01-01')",
    )
    config = config_of(
        server,
        name,
        mode,
        timestamp_column_name="v",
        incrementing_column_name="id",
        validate_non_null="false",
        batch_max_rows="1",
        unsupported_value_handling_mode=handling,
    )
    seen = Seen()
    for _ in range(6):  # killed after every batch
        seen.run(config, polls=1)
    assert seen.column("id") == [3, 4, 1, 2]
    assert seen.run(config, polls=2).batches[-2:] == [0, 0]
