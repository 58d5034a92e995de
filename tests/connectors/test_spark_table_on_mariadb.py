"""SparkTableSource on a real MariaDB: keys that it compares in ways of its own, read by short lives."""

import pytest

from ringfence.connectors.builtin.spark_table.connector import SparkTableSourceConnector
from tests.support.mariadb import MariaDb
from tests.support.mariadb_tables import spark_table_config
from tests.support.spark_table_reader import Reader

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("loopback_egress")]

ROWS = 300
SEQUENCE = f"FROM seq_1_to_{ROWS}"


KEYS = {
    "unsigned": ("k bigint unsigned PRIMARY KEY", "18446744073709551615 - seq", ""),
    "datetime": ("k datetime(6) PRIMARY KEY", "'2026-03-29 01:30:00' + INTERVAL seq * 1000001 MICROSECOND", ""),
    "timestamp": ("k timestamp(6) PRIMARY KEY", "'2026-03-29 01:30:00' + INTERVAL seq * 1000001 MICROSECOND", ""),
    "date": ("k date PRIMARY KEY", "'1999-01-01' + INTERVAL seq DAY", ""),
    "text without case": (
        "k varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY, d int NOT NULL",
        "concat(if(seq % 2, 'ä', 'B'), seq), seq % 4",
        "d",
    ),
    "decimal": ("k decimal(12, 3) PRIMARY KEY, d datetime NOT NULL", "seq * -1.125, '2026-01-01'", "d"),
}


@pytest.mark.parametrize("key", KEYS)
def test_parts_of_a_key_hold_each_row_once(mariadb: MariaDb, key: str) -> None:
    columns, values, column = KEYS[key]
    name = f"wide_{key.replace(' ', '_')}"
    mariadb.run(f"CREATE TABLE {name} ({columns}, n int)", f"INSERT INTO {name} SELECT {values}, seq {SEQUENCE}")
    config = spark_table_config(mariadb, name, **({"partitionColumn": column} if column else {}))
    assert SparkTableSourceConnector().validate(config) == {}
    assert Reader(config).read() == list(range(1, ROWS + 1))


def test_a_key_that_is_compared_otherwise_than_it_is_ordered_is_refused(mariadb: MariaDb) -> None:
    mariadb.run("CREATE TABLE kinds (kind enum('b', 'a') PRIMARY KEY, d int NOT NULL)")
    config = spark_table_config(mariadb, "kinds", partitionColumn="d")
    (said,) = SparkTableSourceConnector().validate(config)["url"]
    assert "rows cannot be read in its order" in said
