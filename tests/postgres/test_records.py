"""Records of PostgresSource are Debezium's: keys, values, schemas, tombstones and headers, for every type it maps."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ringfence.connectors.api import SerializedRecords
from tests.postgres import debezium
from tests.postgres.changes import CHANGES, TABLES
from tests.postgres.comparison import Comparable, by_topic
from tests.postgres.local import Run, config_of, loopback
from tests.postgres.stand import write_position
from tests.support.postgres import Postgres


@pytest.fixture(scope="module", params=["by the converters", "by the task"])
def ours(server: Postgres, request: pytest.FixtureRequest) -> Iterator[list[Comparable]]:
    """What our connector makes of the script, and who makes the bytes of it."""
    by_the_task = request.param == "by the task"
    database = f"compared_{int(by_the_task)}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
    url = f"host=127.0.0.1 port={server.port} user=ringfence dbname={database}"
    with loopback(), psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLES.encode())
        run = Run(config_of(server, database, **debezium.SETTINGS), serialized=by_the_task).start()
        try:
            for change in CHANGES[:-1]:
                connection.execute(change.encode())
            before = write_position(connection)
            connection.execute(CHANGES[-1].encode())
            run.await_position(before + 1)
            assert any(isinstance(record, SerializedRecords) for record in run.records) is by_the_task
            yield run.as_written()
        finally:
            run.stop()


def test_records_are_those_that_debezium_gave(ours: list[Comparable]) -> None:
    expected, found = by_topic(debezium.kept()), by_topic(ours)
    assert found.keys() == expected.keys()
    for topic, records in expected.items():
        for number, (theirs, own) in enumerate(zip(records, found[topic], strict=True)):
            assert own == theirs, f"{topic}, record {number}"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_debezium_still_gives_the_records_that_are_kept(tmp_path: Path) -> None:
    """The unmodified plugin under the real Kafka Connect."""
    found, expected = by_topic(debezium.run(tmp_path)), by_topic(debezium.kept())
    assert found == expected
