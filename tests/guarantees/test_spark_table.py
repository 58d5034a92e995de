"""SparkTableSource as Spark jobs, two tasks side by side: each row once, though processes of executors are killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.engine.spark.driver import SparkHost
from ringfence.fencing.kafka.connection import Connection
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.lake_tables import LakeTable
from tests.support.names import unique
from tests.support.postgres import Postgres, new_postgres
from tests.support.spark_tables import Tasks, fill
from tests.support.waiting import eventually

FILES, ROWS, TASKS = 10, 2000, 2
DB_ROWS = 40_000


@pytest.fixture
def stage(broker: Broker) -> Iterator[Stage]:
    made = Stage(Connection(broker.bootstrap), unique("table"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkHost]:
    host = SparkHost(TASKS)
    host.warm()
    yield host
    host.stop()


def _table(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The connector's settings, and the worker's."""
    table = {"url": f"file://{folder}", "part.rows": "500", "exactly.once.support": "required"}
    return table, {"file.roots": str(folder)}


@pytest.mark.timeout(240)
@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_each_row_once_while_processes_of_tasks_are_killed(
    stage: Stage, spark: SparkHost, tmp_path: Path, kind: str
) -> None:
    """A table with versions gets another one in the meantime, without the rows of the one before."""
    made, total = LakeTable(tmp_path / "table", kind), FILES * ROWS
    made.write(range(total), FILES)
    tasks = Tasks(stage, spark, *_table(made.folder), batch=30)

    def change() -> None:
        if kind != "parquet":
            made.write(range(total, total + 100), 1)

    assert tasks.read_under_kills(total, meanwhile=change) == list(range(total)), "a row is missing, or there twice"


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_a_second_copy_of_an_attempt_writes_nothing_twice(stage: Stage, spark: SparkHost, tmp_path: Path) -> None:
    """As Spark's speculation would start it, which workers refuse to switch on."""
    made, total = LakeTable(tmp_path / "table", "parquet"), FILES * ROWS
    made.write(range(total), FILES)
    tasks = Tasks(stage, spark, *_table(made.folder), batch=30)
    specs = [tasks.start(number) for number in range(TASKS)]
    eventually(lambda: len(stage.visible()) > 0, 90, "rows", pause=0.05)
    for spec in specs:
        tasks.submit(spec)
    assert tasks.read_rest(total) == list(range(total)), "a row is missing, or there twice"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with new_postgres() as made:
        yield made


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_each_row_of_a_table_in_a_database_once_in_hundreds_of_parts(
    stage: Stage, spark: SparkHost, server: Postgres
) -> None:
    table = {**fill(server, DB_ROWS), "exactly.once.support": "required"}
    found = Tasks(stage, spark, table, {"egress.allow": "loopback"}, batch=30).read_under_kills(DB_ROWS)
    assert found == list(range(DB_ROWS)), "a row is missing, or there twice"


@pytest.mark.thorough
@pytest.mark.timeout(240)
def test_without_fencing_rows_of_a_table_come_twice(stage: Stage, spark: SparkHost, server: Postgres) -> None:
    """So the test above can tell. A kill just behind a flush of the offsets costs nothing, so there are several."""
    worker = {"egress.allow": "loopback", "exactly.once.source.support": "disabled", "offset.flush.interval.ms": "1000"}
    found = Tasks(stage, spark, fill(server, DB_ROWS), worker, batch=30).read_under_kills(DB_ROWS, kills=6)
    assert set(found) == set(range(DB_ROWS))
    assert len(found) > DB_ROWS
