"""Records of PostgresSource are Debezium's: keys, values, schemas, tombstones and headers, for every type it maps."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.postgres import debezium
from tests.postgres.changes import CHANGES, TABLES
from tests.postgres.comparison import Comparable, by_topic
from tests.postgres.local import Run, config_of, loopback
from tests.postgres.stand import write_position
from tests.support.postgres import Postgres


@pytest.fixture(scope="module")
def ours(server: Postgres) -> Iterator[list[Comparable]]:
    """What our connector makes of the script."""
    with loopback(), psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(TABLES.encode())
        run = Run(config_of(server, **{**debezium.SETTINGS, "slot_name": "compared"})).start()
        try:
            for change in CHANGES[:-1]:
                connection.execute(change.encode())
            before = write_position(connection)
            connection.execute(CHANGES[-1].encode())
            run.await_position(before + 1)
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
