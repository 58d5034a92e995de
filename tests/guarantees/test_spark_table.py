"""SparkTableSource as Spark jobs, two tasks side by side: each row once, though processes of executors are killed."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from ringfence.engine.spark.driver import SparkHost
from ringfence.fencing.kafka.settings import Connection
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.names import unique
from tests.support.postgres import Postgres, new_postgres
from tests.support.spark_tables import Tasks, fill

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


def _write_table(folder: Path) -> None:
    folder.mkdir()
    for file in range(FILES):
        table = pyarrow.table({"n": [str(n) for n in range(file * ROWS, (file + 1) * ROWS)]})
        pyarrow.parquet.write_table(table, folder / f"part-{file:05}.parquet", row_group_size=250)


@pytest.mark.timeout(240)
def test_each_row_once_while_processes_of_tasks_are_killed(stage: Stage, spark: SparkHost, tmp_path: Path) -> None:
    folder, total = tmp_path / "table", FILES * ROWS
    _write_table(folder)
    table = {"url": f"file://{folder}", "part.rows": "500", "exactly.once.support": "required"}
    tasks = Tasks(stage, spark, table, {"file.roots": str(folder)}, batch=30)
    assert tasks.read_under_kills(total) == list(range(total)), "a row is missing, or there twice"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with new_postgres() as made:
        yield made


@pytest.mark.timeout(240)
def test_each_row_of_a_table_in_a_database_once_in_hundreds_of_parts(
    stage: Stage, spark: SparkHost, server: Postgres
) -> None:
    table = {**fill(server, DB_ROWS), "exactly.once.support": "required"}
    found = Tasks(stage, spark, table, {"egress.allow": "loopback"}, batch=30).read_under_kills(DB_ROWS)
    assert found == list(range(DB_ROWS)), "a row is missing, or there twice"


@pytest.mark.timeout(240)
def test_without_fencing_rows_of_a_table_come_twice(stage: Stage, spark: SparkHost, server: Postgres) -> None:
    """So the test above can tell. A kill just behind a flush of the offsets costs nothing, so there are several."""
    worker = {"egress.allow": "loopback", "exactly.once.source.support": "disabled", "offset.flush.interval.ms": "1000"}
    found = Tasks(stage, spark, fill(server, DB_ROWS), worker, batch=30).read_under_kills(DB_ROWS, kills=6)
    assert set(found) == set(range(DB_ROWS))
    assert len(found) > DB_ROWS
