"""With Avro, records of PostgresSource are Debezium's, too: the schemas that are registered, and the values."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.connectors.converters.registry.avro import avro_schema
from tests.postgres import debezium, debezium_avro
from tests.postgres.changes import CHANGES, TABLES
from tests.postgres.comparison import Comparable, by_topic
from tests.postgres.local import Database, loopback
from tests.postgres.stand import write_position
from tests.support.apicurio import Apicurio

_DEFAULT_OF_JSON = "compared.shop.more_texts"

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def ours(database: Database, tmp_path: Path) -> Iterator[list[Comparable]]:
    """What our connector makes of the script."""
    registry = Apicurio(tmp_path / "registry")
    registry.start()
    try:
        with loopback():
            database.execute(TABLES)
            run = database.run(None, **debezium_avro.settings_of(registry))
            database.execute(*CHANGES[:-1])
            before = write_position(database.connection)
            database.execute(CHANGES[-1])
            run.await_position(before + 1)
            made = next(one for one in run.records if one.topic == _DEFAULT_OF_JSON)
            assert made.value_schema is not None
            text = json.dumps(avro_schema(made.value_schema), separators=(",", ":"))
            registry.register_avro(f"{_DEFAULT_OF_JSON}-value", text)
            yield run.as_written(debezium_avro.Reader(registry).load)
    finally:
        registry.kill()


@pytest.mark.thorough
def test_records_are_those_that_debezium_gave(ours: list[Comparable]) -> None:
    expected, found = by_topic(debezium.kept(debezium_avro.KEPT)), by_topic(ours)
    assert found.keys() == expected.keys()
    for topic, records in expected.items():
        for number, (theirs, own) in enumerate(zip(records, found[topic], strict=True)):
            assert own == theirs, f"{topic}, record {number}"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_debezium_still_gives_the_records_that_are_kept(tmp_path: Path) -> None:
    """The unmodified plugin under the real Kafka Connect."""
    assert by_topic(debezium_avro.run(tmp_path)) == by_topic(debezium.kept(debezium_avro.KEPT))
