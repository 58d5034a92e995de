"""Records of PostgresSource are Debezium's: keys, values, schemas, tombstones and headers, for every type it maps."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.connectors.api import SerializedRecords
from tests.postgres import debezium
from tests.postgres.changes import CHANGES, TABLES
from tests.postgres.comparison import Comparable, by_topic
from tests.postgres.stand import streamed
from tests.support.postgres import Postgres


@pytest.fixture(scope="module", params=["by the converters", "by the task"])
def ours(server: Postgres, request: pytest.FixtureRequest) -> Iterator[list[Comparable]]:
    """What our connector makes of the script, and who makes the bytes of it."""
    by_the_task = request.param == "by the task"
    database = f"compared_{int(by_the_task)}"
    with streamed(server, database, TABLES, CHANGES, serialized=by_the_task, **debezium.SETTINGS) as run:
        assert any(isinstance(record, SerializedRecords) for record in run.records) is by_the_task
        yield run.as_written()


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
