"""SparkTableSource on a real platform, by REST: a table of PostgreSQL in 200 parts, and its pages."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.up import Up
from tests.guarantees.copies import committed
from tests.support.names import unique
from tests.support.postgres import Postgres, new_postgres
from tests.support.spark_tables import fill
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_SECONDS = 120.0
ROWS = 100_000


@pytest.fixture
def server() -> Iterator[Postgres]:
    with new_postgres() as made:
        yield made


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with Up(tmp_path / "data", settings={"CONNECT_EGRESS_ALLOW": "public,private,loopback"}) as made:
        yield made


def test_a_table_is_read_once_and_its_tasks_end(up: Up, server: Postgres) -> None:
    name = unique("flights")
    config = {
        "name": name,
        "connector.class": "SparkTableSource",
        "tasks.max": "3",
        **fill(server, ROWS),
        "numPartitions": "200",
        "topic": name,
        "batch.size": "50",
        "exactly.once.support": "required",
        "transforms": "n",
        "transforms.n.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
        "transforms.n.field": "n",
        "value.converter": "StringConverter",
    }
    checked = up.rest.expect(200, "PUT", "/connector-plugins/SparkTableSource/config/validate", config)
    assert checked["error_count"] == 0, checked
    wrong = {**config, "dbtable": "nowhere"}
    checked = up.rest.expect(200, "PUT", "/connector-plugins/SparkTableSource/config/validate", wrong)
    assert "there is no table nowhere" in str([each["value"]["errors"] for each in checked["configs"]])

    up.rest.settled(201, "PUT", f"/connectors/{name}/config", config)

    def values() -> Counter[bytes | None]:
        return Counter(value for _, _, value, *_ in committed(up.bootstrap, name, up.connection.settings))

    def tasks() -> list[object]:
        return list(up.rest.status(name)["tasks"])

    eventually(lambda: len(tasks()) == 3, _SECONDS, lambda: str(up.rest.status(name)))
    eventually(lambda: values().total() > 0, _SECONDS, lambda: str(up.rest.status(name)))
    up.rest.settled(202, "POST", f"/connectors/{name}/restart?includeTasks=true")
    eventually(lambda: len(values()) == ROWS, _SECONDS, lambda: str(values().total()), pause=0.5)
    assert values().total() == ROWS, "a row is there twice"
    eventually(lambda: tasks() == [], _SECONDS, lambda: f"tasks {tasks()} are still there")
    assert up.rest.status(name)["connector"]["state"] == "RUNNING"

    offsets = up.rest.expect(200, "GET", f"/connectors/{name}/offsets")["offsets"]
    assert len(offsets) == 1 + sum("part" in each["partition"] for each in offsets)
    assert all(each["offset"]["done"] for each in offsets if "part" in each["partition"])

    def page() -> str:
        answer = up.rest.call("GET", f"/ui/connectors/{name}", headers={"Accept": "text/html"})
        assert answer.status_code == 200
        return answer.text

    # On a busy machine the workers' heartbeats are late, and the page says so in its place.
    eventually(lambda: "Complete" in page(), _SECONDS, lambda: str(re.findall(r'class="chip.*', page())), pause=0.5)

    up.rest.settled(204, "PUT", f"/connectors/{name}/stop")
    up.rest.settled(200, "DELETE", f"/connectors/{name}/offsets")
    up.rest.settled(202, "PUT", f"/connectors/{name}/resume")
    eventually(lambda: values().total() == 2 * ROWS, _SECONDS, lambda: str(values().total()), pause=0.5)
    eventually(lambda: tasks() == [], _SECONDS, lambda: f"tasks {tasks()} are still there")
    assert set(values().values()) == {2}
