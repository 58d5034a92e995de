"""A Python plugin is installed while the platform runs, then a newer version and one that needs another library."""

import base64
import hashlib
from pathlib import Path

import pytest

from tests.e2e.rest import Json
from tests.e2e.up import Up
from tests.guarantees.copies import committed
from tests.support.names import unique
from tests.support.waiting import eventually
from tests.support.wheels import make_plugin, make_shade

ROUTE = "/api/v1/plugin-installations"
RED = "red.RedConnector"
_SECONDS = 60.0


@pytest.fixture(autouse=True)
def red(index: Path) -> None:
    """Two versions of a plugin that need different versions of a library."""
    for each in ("1.0", "2.0"):
        make_shade(index, each)
    make_plugin(index, "red", "1.2", "1.0")
    make_plugin(index, "red", "1.10", "2.0")


def values(up: Up, topic: str) -> list[bytes | None]:
    return [value for _, _, value, *_ in committed(up.bootstrap, topic, up.connection.settings)]


def await_value(up: Up, topic: str, value: bytes) -> None:
    eventually(lambda: values(up, topic) == [value], _SECONDS, lambda: values(up, topic))


def await_installed(up: Up, number: int, connectors: dict[str, str]) -> None:
    def found() -> Json:
        answer: Json = up.rest.expect(200, "GET", f"{ROUTE}/{number}")
        return answer

    eventually(lambda: found()["state"] in ("done", "failed"), _SECONDS, "the plugin is not installed")
    assert [(each["state"], each["connectors"]) for each in found()["workers"]] == [("done", connectors)], found()


def install(up: Up, version: str) -> None:
    eventually(lambda: len(up.rest.expect(200, "GET", "/api/v1/plugin-versions")) == 1, _SECONDS)
    number = up.rest.expect(201, "POST", ROUTE, {"plugin": f"red-source=={version}"})["id"]
    await_installed(up, number, {RED: version})


def upload(up: Up, wheel: Path) -> int:
    data = wheel.read_bytes()
    asked = {"plugin": wheel.name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    number = int(up.rest.expect(201, "POST", ROUTE, asked)["id"])
    piece = {"start": 0, "content": base64.b64encode(data).decode()}
    up.rest.expect(200, "POST", f"{ROUTE}/{number}/bytes", piece)
    return number


def test_python_plugins_run_in_environments_of_their_own_without_a_restart_of_a_worker(up: Up, tmp_path: Path) -> None:
    def incarnations() -> set[str]:
        return {each["incarnation"] for each in up.rest.expect(200, "GET", "/api/v1/workers")["results"]}

    workers = eventually(incarnations, _SECONDS, "no worker has reported")
    install(up, "1.2")
    name = unique("red")
    config = {"connector.class": RED, "topic": name, "tasks.max": "1", "value.converter": "StringConverter"}
    up.rest.settled(201, "PUT", f"/connectors/{name}/config", config)

    def version_that_runs(connector: str) -> str:
        tasks = up.rest.expect(200, "GET", f"/connectors/{connector}/status")["tasks"]
        return str(tasks[0]["version"]) if tasks and tasks[0]["state"] == "RUNNING" else ""

    eventually(lambda: version_that_runs(name) == "1.2", _SECONDS, "the installed plugin does not run")
    await_value(up, name, b"RedConnector 1.2 with shade 1.0")

    install(up, "1.10")
    await_installed(up, upload(up, make_plugin(tmp_path / "own", "blue", "3", "2.0")), {"blue.BlueConnector": "3"})
    told = "1.10 is installed, 1.2 runs. Restart the connector"

    def events() -> str:
        return str(up.rest.expect(200, "GET", f"/api/v1/connectors/{name}/events"))

    eventually(lambda: told in events(), _SECONDS, "nobody says that a newer version is installed")
    assert version_that_runs(name) == "1.2"
    # Both versions, and another plugin with the newer library, at the same time.
    blue, newer = unique("blue"), unique("newer")
    up.rest.settled(201, "PUT", f"/connectors/{blue}/config", {**config, "connector.class": "Blue", "topic": blue})
    up.rest.settled(201, "PUT", f"/connectors/{newer}/config", {**config, "topic": newer})
    eventually(lambda: version_that_runs(newer) == "1.10", _SECONDS)
    await_value(up, newer, b"RedConnector 1.10 with shade 2.0")
    await_value(up, blue, b"BlueConnector 3 with shade 2.0")

    up.rest.settled(202, "POST", f"/connectors/{name}/restart?includeTasks=true")
    eventually(lambda: version_that_runs(name) == "1.10", _SECONDS, "the newer version does not run")
    pinned = {**config, "connector.plugin.version": "1.2"}
    up.rest.settled(200, "PUT", f"/connectors/{name}/config", pinned)
    eventually(lambda: version_that_runs(name) == "1.2", _SECONDS, "the older version does not run again")
    assert incarnations() == workers
    for each in (name, blue, newer):
        up.rest.settled(204, "DELETE", f"/connectors/{each}")
