"""SparkTableSource on PostgreSQL: its parts hold all rows once, whatever the key is and wherever a life ends."""

from collections.abc import Callable, Iterator

import pytest

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.spark_table.connector import SparkTableSourceConnector
from tests.connectors.fakes import FakeOffsets
from tests.postgres.local import loopback
from tests.support.cases import mark_cases
from tests.support.postgres import Postgres
from tests.support.spark_table_reader import Reader, postgres_config_of

ROWS = 500


@pytest.fixture(autouse=True)
def allowed() -> Iterator[None]:
    with loopback():
        yield


@pytest.fixture
def name(unique: Callable[[str], str]) -> str:
    return unique("wide").replace("-", "_")


KEYS = {
    "numbers": ("k int", "g * 3"),
    "large numbers": ("k bigint", "g * 10000000000 - 5"),
    "dates": ("k date", "date '1999-12-30' + g"),
    "times": ("k timestamp", "timestamp '1969-12-31 23:00' + g * interval '7 seconds 1 microsecond'"),
    "times with zones": ("k timestamptz", "timestamptz '2026-03-29 00:00+00' + g * interval '11 seconds'"),
    "an uneven distribution": ("k bigint", "g * g * g"),
}


@pytest.mark.parametrize(
    "key", mark_cases(KEYS, slow={"large numbers", "dates", "times"}, thorough={"numbers", "times with zones"})
)
def test_parts_of_a_key_hold_each_row_once(server: Postgres, name: str, key: str) -> None:
    column, value = KEYS[key]
    server.query(f"CREATE TABLE {name} ({column} PRIMARY KEY, n int)")
    server.query(f"INSERT INTO {name} SELECT {value}, g FROM generate_series(1, {ROWS}) g")
    reader = Reader(postgres_config_of(server, name, numPartitions="20"))
    assert reader.read() == list(range(1, ROWS + 1))
    assert len(reader.offsets.known) == 21, "a plan and 20 parts"


REST = {
    "text": ("x text", "'ä_' || (g * 37 % 500)"),
    "uuid": ("x uuid", "md5(g::text)::uuid"),
    "numeric": ("x numeric(20, 3)", "g * -1.125"),
    "two": ("x text, y date", "(g % 7)::text, date '2026-01-01' + g"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("key", mark_cases(REST, slow={"uuid", "numeric"}))
def test_rows_with_one_value_are_told_apart_by_the_key(server: Postgres, name: str, key: str) -> None:
    columns, values = REST[key]
    names = ", ".join(each.split()[0] for each in columns.split(", ") if each[0] in "xy" and " " in each)
    server.query(f"CREATE TABLE {name} (d int NOT NULL, n int, {columns}, PRIMARY KEY ({names}))")
    server.query(f"INSERT INTO {name} SELECT g % 3, g, {values} FROM generate_series(1, {ROWS}) g")
    reader = Reader(postgres_config_of(server, name, partitionColumn="d", numPartitions="2"))
    assert reader.read() == list(range(1, ROWS + 1))


@pytest.mark.thorough
def test_bounds_say_how_to_divide_and_not_what_to_read(server: Postgres, name: str) -> None:
    server.query(f"CREATE TABLE {name} (id int PRIMARY KEY, n int)")
    server.query(f"INSERT INTO {name} SELECT g, g FROM generate_series(1, {ROWS}) g")
    reader = Reader(postgres_config_of(server, name, lowerBound="100", upperBound="200", numPartitions="4"))
    assert reader.read() == list(range(1, ROWS + 1))
    assert [(each["start"], each["stop"]) for _, each in reader.offsets.known if "key" in each] == [
        (None, 125),
        (125, 150),
        (150, 175),
        (175, None),
    ]


def test_an_empty_table_is_read_to_its_end_and_tasks_end(server: Postgres, name: str) -> None:
    server.query(f"CREATE TABLE {name} (id int PRIMARY KEY)")
    reader = Reader(postgres_config_of(server, name))
    assert reader.read() == []
    assert reader.live(1).reconfigurations == 1
    connector = SparkTableSourceConnector()
    connector.context = type("Context", (), {"trial": False, "offset_reader": reader.offsets})()
    connector.start(reader.config)
    assert connector.task_configs(3) == []


def test_tasks_end_when_all_parts_are_read(server: Postgres, name: str) -> None:
    server.query(f"CREATE TABLE {name} (id int PRIMARY KEY, n int)")
    server.query(f"INSERT INTO {name} SELECT g, g FROM generate_series(1, 100) g")
    reader = Reader(postgres_config_of(server, name, numPartitions="4", **{"batch.size": "1000"}))
    assert reader.live(8, "0/2").reconfigurations == 0, "the other task has not read its parts"
    connector = SparkTableSourceConnector()
    connector.context = type("Context", (), {"trial": False, "offset_reader": reader.offsets})()
    connector.start(reader.config)
    assert [each["table.share"] for each in connector.task_configs(2)] == ["0/2", "1/2"]
    assert reader.live(8, "1/2").reconfigurations == 0, "one task asks, not each"
    assert reader.live(1, "0/2").reconfigurations == 1
    assert connector.task_configs(2) == []
    assert sorted(row["n"] for row in reader.rows) == list(range(1, 101))  # type: ignore[type-var]


def test_a_preview_plans_one_part(server: Postgres, name: str) -> None:
    server.query(f"CREATE TABLE {name} (id int PRIMARY KEY, n int)")
    server.query(f"INSERT INTO {name} SELECT g, g FROM generate_series(1, {ROWS}) g")
    connector = SparkTableSourceConnector()
    connector.context = type("Context", (), {"trial": True})()
    connector.start(postgres_config_of(server, name))
    (share,) = connector.task_configs(5)
    reader = Reader(share)
    while not reader.rows:
        reader.live(1, **share)
    assert [row["n"] for row in reader.rows] == [1, 2, 3, 4, 5, 6, 7]
    assert len(reader.offsets.known) == 2


def test_a_plan_by_another_column_is_not_gone_on_with(server: Postgres, name: str) -> None:
    server.query(f"CREATE TABLE {name} (id int PRIMARY KEY, d int NOT NULL, n int)")
    server.query(f"INSERT INTO {name} SELECT g, g % 5, g FROM generate_series(1, {ROWS}) g")
    reader = Reader(postgres_config_of(server, name))
    reader.live(2)
    reader.offsets.known = [one for one in reader.offsets.known if one[0].get("part") != 3]
    with pytest.raises(ConnectorError, match=r"Part 3 of the plan .* has no source offset any more"):
        reader.live(1)
    reader.offsets = FakeOffsets()
    reader.live(2)
    reader.config["partitionColumn"] = "d"
    with pytest.raises(ConnectorError, match="orders rows by id, but the order would now be by d, id"):
        reader.live(1)


@pytest.mark.parametrize(
    ("columns", "more", "problem"),
    [
        ("id int", {}, "no primary key"),
        ("id int UNIQUE", {}, "no primary key"),
        ("id text PRIMARY KEY", {}, "ranges of the column id cannot be parts"),
        ("id int PRIMARY KEY, d date", {"partitionColumn": "d"}, "ranges of the column d cannot be parts"),
        ("id int PRIMARY KEY", {"partitionColumn": "x"}, "has no column x"),
        ("id float PRIMARY KEY, d int NOT NULL", {"partitionColumn": "d"}, "rows cannot be read in its order"),
        ("id int PRIMARY KEY", {"lowerBound": "x"}, "lowerBound 'x' is not a value of id"),
        ("id int PRIMARY KEY", {"dbtable": "nowhere"}, "there is no table nowhere"),
        ("id int PRIMARY KEY", {"dbtable": "(SELECT 1) t"}, "must be the name of a table"),
        ("id int PRIMARY KEY", {"dbtable": ""}, "dbtable: required"),
        ("id int PRIMARY KEY", {"url": "jdbc:sqlite:/x"}, "Use SqlSource"),
        ("id int PRIMARY KEY", {"url": "jdbc:oracle:thin:@x"}, "not supported"),
    ],
)
def test_what_cannot_be_read_exactly_is_refused(
    server: Postgres, name: str, columns: str, more: dict[str, str], problem: str
) -> None:
    server.query(f"CREATE TABLE {name} ({columns})")
    config = {**postgres_config_of(server, name), **more}
    (said,) = [text for texts in SparkTableSourceConnector().validate(config).values() for text in texts]
    assert problem in said


def test_a_table_with_a_key_is_accepted(server: Postgres, name: str) -> None:
    server.query(f"CREATE TABLE {name} (id int NOT NULL UNIQUE)")
    assert SparkTableSourceConnector().validate(postgres_config_of(server, name)) == {}
    assert SparkTableSourceConnector().validate(postgres_config_of(server, f"public.{name}")) == {}


def test_a_form_offers_tables_and_columns_and_errors_stand_at_their_settings(server: Postgres, name: str) -> None:
    server.query(f"CREATE TABLE {name} (id int PRIMARY KEY, day date NOT NULL, at timestamptz, n text NOT NULL)")
    connector = SparkTableSourceConnector()
    choices = connector.list_choices(postgres_config_of(server, name))
    assert name in [one.value for one in choices["dbtable"]]
    assert [(one.value, one.description) for one in choices["partitionColumn"]] == [("id", "integer"), ("day", "date")]
    assert "partitionColumn" not in connector.list_choices(postgres_config_of(server, ""))
    assert connector.list_choices({"url": "file:///x", "topic": "t"}) == {}
    assert [*connector.validate(postgres_config_of(server, "nowhere"))] == ["dbtable"]
    assert [*connector.validate(postgres_config_of(server, name, partitionColumn="at"))] == ["partitionColumn"]
    assert [*connector.validate(postgres_config_of(server, name, upperBound="x"))] == ["upperBound"]
    assert [*connector.validate({**postgres_config_of(server, name), "url": "jdbc:oracle:thin"})] == ["url"]


def test_a_test_of_the_connection_lists_tables_until_one_is_chosen(server: Postgres, name: str) -> None:
    server.query(f"CREATE TABLE {name} (id int PRIMARY KEY, item text)")
    connector, config = SparkTableSourceConnector(), postgres_config_of(server, name)
    reached = {key: value for key, value in config.items() if key in ("url", "user", "password")}
    listed = connector.examine(reached)
    assert listed.errors == {}
    assert listed.summary.startswith("PostgreSQL, ")
    chosen = connector.examine({**reached, "dbtable": name})
    assert chosen.summary == f"Table {name}, 2 columns: id, item. Its parts are ranges of id."
    assert [*connector.examine({**reached, "dbtable": "nowhere"}).errors] == ["dbtable"]
    assert [*connector.examine({**reached, "dbtable": name, "partitionColumn": "item"}).errors] == ["partitionColumn"]
    (text,) = connector.examine({**reached, "url": f"{reached['url']}x"}).errors["url"]
    assert text.startswith("There is no database of this name")
