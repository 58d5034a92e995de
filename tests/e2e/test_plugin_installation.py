"""A plugin is installed while the platform runs, then a newer version of it: nobody restarts a worker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.rest import Json
from tests.e2e.up import Up
from tests.support.names import unique
from tests.support.waiting import eventually

ROUTE = "/api/v1/plugin-installations"
CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"
OLD, NEW = "4.1.0", "4.3.0"
_SECONDS = 120.0


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    folder = str(tmp_path / "plugins")
    settings = {
        "CONNECT_PLUGIN_PATH": folder,
        "CONNECT_PLUGIN_INSTALL_PATH": folder,
        "CONNECT_FILE_ROOTS": str(tmp_path),
    }
    with Up(tmp_path / "data", workers=2, settings=settings) as made:
        yield made


def install(up: Up, version: str) -> None:
    eventually(lambda: len(up.rest.expect(200, "GET", "/api/v1/plugin-versions")) == 2, _SECONDS)
    body = {"plugin": f"org.apache.kafka:connect-file:{version}"}
    number = up.rest.expect(201, "POST", ROUTE, body)["id"]

    def found() -> Json:
        answer: Json = up.rest.expect(200, "GET", f"{ROUTE}/{number}")
        return answer

    eventually(lambda: found()["state"] in ("done", "failed"), _SECONDS, "the plugin is not installed")
    assert [(each["state"], each["connectors"]) for each in found()["workers"]] == [("done", {CLASS: version})] * 2
    entries = up.rest.expect(200, "GET", "/api/v1/audit?action=plugin%20installed")["results"]
    audited = {
        each["via"]: each["after"]["files"] for each in entries if each["after"]["connectors"] == {CLASS: version}
    }
    assert audited == {f"worker {each['worker']}": each["files"] for each in found()["workers"]}


@pytest.mark.slow
def test_a_plugin_and_then_its_newer_version_run_without_a_restart_of_a_worker(up: Up, tmp_path: Path) -> None:
    workers = {each["incarnation"] for each in up.rest.expect(200, "GET", "/api/v1/workers")["results"]}
    install(up, OLD)
    name, source = unique("installed"), tmp_path / "lines"
    source.write_text("one\ntwo\n")
    config = {"connector.class": CLASS, "file": str(source), "topic": name, "tasks.max": "1"}
    up.rest.settled(201, "PUT", f"/connectors/{name}/config", config)

    def version_that_runs() -> str:
        tasks = up.rest.expect(200, "GET", f"/connectors/{name}/status")["tasks"]
        return str(tasks[0]["version"]) if tasks and tasks[0]["state"] == "RUNNING" else ""

    eventually(lambda: version_that_runs() == OLD, _SECONDS, "the installed plugin does not run")
    install(up, NEW)

    def foreseen() -> str:
        checks = up.rest.expect(200, "GET", f"/api/v1/preflight?connector={name}")["checks"]
        return str({each["name"]: each["message"] for each in checks}["plugin versions"])

    eventually(lambda: foreseen() == f"Each of 2 workers has {CLASS} {NEW}.", _SECONDS, "preflight does not see it")
    told = f"{NEW} is installed, {OLD} runs. Restart the connector"

    def events() -> str:
        return str(up.rest.expect(200, "GET", f"/api/v1/connectors/{name}/events"))

    eventually(lambda: told in events(), _SECONDS, "nobody says that a newer version is installed")
    assert version_that_runs() == OLD
    up.rest.settled(202, "POST", f"/connectors/{name}/restart?includeTasks=true")
    eventually(lambda: version_that_runs() == NEW, _SECONDS, "the newer version does not run")
    assert {each["incarnation"] for each in up.rest.expect(200, "GET", "/api/v1/workers")["results"]} == workers
