"""Values and tables that few have: nothing of them ends the task, and records are Debezium's where those are right."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import debezium
from tests.postgres.comparison import Comparable, by_topic
from tests.postgres.oddities import CHANGES, COMPARED, TABLES
from tests.postgres.stand import streamed
from tests.support.postgres import Postgres

KEPT = Path(__file__).with_name("debezium-oddities.json.gz")
SETTINGS = {**debezium.SETTINGS, "schema.include.list": "odd"}
SCRIPT = debezium.Script(TABLES, CHANGES, "compared.odd.last", lambda _key: True)


@pytest.fixture(scope="module", params=["by the converters", "by the task"])
def ours(server: Postgres, request: pytest.FixtureRequest) -> Iterator[dict[str, list[Comparable]]]:
    """Our connector's records of the script by table, and who makes the bytes of them."""
    by_the_task = request.param == "by the task"
    with streamed(server, f"odd_{int(by_the_task)}", TABLES, CHANGES, serialized=by_the_task, **SETTINGS) as run:
        yield {topic.rpartition(".")[2]: records for topic, records in by_topic(run.as_written()).items()}


def test_records_are_those_that_debezium_gave(ours: dict[str, list[Comparable]]) -> None:
    expected = by_topic(debezium.kept(KEPT))
    assert {topic.rpartition(".")[2] for topic in expected} == COMPARED
    for topic, records in expected.items():
        for number, (theirs, own) in enumerate(zip(records, ours[topic.rpartition(".")[2]], strict=True)):
            assert own == theirs, f"{topic}, record {number}"


def test_a_null_in_an_array_of_enums_is_kept(ours: dict[str, list[Comparable]]) -> None:
    value = ours["arrays"][0][2]
    assert value["payload"]["after"]["moods"] == ["ok", None, "sad"]
    after = next(field for field in value["schema"]["fields"] if field["field"] == "after")
    moods = next(field for field in after["fields"] if field["field"] == "moods")
    assert moods["items"]["optional"] is True


def test_a_table_without_columns_has_records(ours: dict[str, list[Comparable]]) -> None:
    ((_, key, value, _),) = ours["nothing"]
    assert key is None
    assert value["payload"]["after"] == {}


@pytest.mark.parametrize("table", ["optional_defaults", "required_defaults"])
def test_no_default_of_a_column_ends_the_task(ours: dict[str, list[Comparable]], table: str) -> None:
    ((_, _, value, _),) = ours[table]
    after = value["payload"]["after"]
    assert (after["sum"], after["negative"], after["escaped"], after["moods"]) == (3, -5, "a\nb'c", ["ok", "sad"])
    assert after["endless"] == 9223372036854775807


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_debezium_still_gives_the_records_that_are_kept(tmp_path: Path) -> None:
    """The unmodified plugin under the real Kafka Connect."""
    records = debezium.run(tmp_path, SETTINGS, script=SCRIPT)
    assert [each for each in records if each[0].rpartition(".")[2] in COMPARED] == debezium.kept(KEPT)
