"""A real `ringfence up`: no connector makes requests to it in its user's name, with and without accounts."""

import ipaddress
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from ringfence.connectors.process_tree import MARK
from ringfence.connectors.sdk import own_listeners
from ringfence.connectors.sdk.egress import EgressDenied, Policy
from ringfence.connectors.sdk.worker_limits import WorkerLimits, current, declare
from tests.e2e.rest import Rest
from tests.e2e.up import Up, environment
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(400)

REFUSED = "never allowed"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("up")) as started:
        yield started


def run(up: Up, *arguments: str) -> str:
    command = [sys.executable, "-m", "ringfence.cli", *arguments, "--data", str(up.data)]
    return subprocess.run(command, env=environment({}), check=True, capture_output=True, text=True).stdout


def read(base: str, resource: dict[str, Any] | str) -> dict[str, str]:
    """DltSource that asks the API at `base`."""
    return {
        "connector.class": "DltSource",
        "name": "team-a-dlt",
        "tasks.max": "1",
        "topic.prefix": "team-a.",
        "transaction.boundary": "connector",
        "rest.config": json.dumps({"client": {"base_url": f"{base}/"}, "resources": [resource]}),
    }


def attacks(up: Up) -> dict[str, dict[str, str]]:
    port = up.http.rpartition(":")[2]
    created = {"name": "owned", "config": {"connector.class": "VerifiableSource", "topic": "stolen", "tasks.max": "1"}}
    posted = {"name": "made", "endpoint": {"path": "connectors", "method": "POST", "json": created}}
    registry = f"http://127.0.0.1:{port}"
    lines = {
        "connector.class": "FileStreamSource",
        "name": "team-a-lines",
        "tasks.max": "1",
        "topic": "team-a.lines",
        "file": str(up.data.parent / "lines.txt"),
        "value.converter": "io.confluent.connect.avro.AvroConverter",
    }
    return {
        "all connectors": read(f"http://{up.http}", {"name": "c", "endpoint": {"path": "connectors?expand=info"}}),
        "the audit trail": read(f"http://localhost:{port}", {"name": "a", "endpoint": {"path": "api/v1/audit"}}),
        "a new connector": read(f"http://[::ffff:127.0.0.1]:{port}", posted),
        "a restart": {**lines, "value.converter.schema.registry.url": f"{registry}/connectors/victim/restart?x="},
    }


def try_out(up: Up, rest: Rest) -> None:
    for what, config in attacks(up).items():
        body = {"config": config, "records": 3}
        answer = rest.started("POST", "/api/v1/preview", body)
        assert REFUSED in answer.text or "has no query and no fragment" in answer.text, f"{what}: {answer.text}"
        assert not (answer.status_code == 200 and answer.json().get("records")), f"{what}: {answer.text}"


def requests_without_login(rest: Rest) -> list[Any]:
    """The writes and tries of this machine's user in the audit trail, by path, but those of this test."""
    entries = rest.expect(200, "GET", "/api/v1/audit")
    found = entries if isinstance(entries, list) else entries.get("results", entries.get("entries"))
    assert found is not None, entries
    return [each for each in found if "loopback" in json.dumps(each) and "preview" not in json.dumps(each)]


def test_its_user_is_let_in_and_its_connectors_are_not(up: Up) -> None:
    assert up.rest.call("GET", "/connectors").status_code == 200
    (up.data.parent / "lines.txt").write_text("one\n")
    try_out(up, up.rest)
    assert "owned" not in up.rest.expect(200, "GET", "/connectors")
    assert requests_without_login(up.rest) == []


def listeners(up: Up) -> dict[int, str]:
    """Each port on which a process of `up` listens, with its address."""
    found: dict[int, str] = {}
    for process in psutil.Process(up.lock_holder).children(recursive=True):
        for one in process.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN:
                found[one.laddr.port] = one.laddr.ip
    return found


def test_no_setting_opens_any_of_its_listeners(up: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, str(up.lock_holder))
    monkeypatch.setattr(own_listeners, "_verdicts", {})
    before = current()
    declare(WorkerLimits(home=up.bootstrap))
    try:
        ports = listeners(up)
        assert len(ports) >= 5, f"web, Valkey, the broker, its controller, Spark: {ports}"
        assert {int(up.http.rpartition(":")[2]), up.redis_port, up.kafka_port} <= ports.keys()
        for port in ports:
            if port == up.kafka_port:
                assert Policy("loopback").addresses("127.0.0.1", port)
                continue
            with pytest.raises(EgressDenied, match=REFUSED):
                Policy("loopback,0.0.0.0/0").addresses("localhost", port)
            assert own_listeners.is_own(ipaddress.ip_address("127.0.0.1"), port)
    finally:
        declare(before)


def test_its_broker_stays_open_to_connectors(up: Up) -> None:
    config = {
        "connector.class": "KafkaSource",
        "name": "team-a-copy",
        "source.cluster.alias": "here",
        "source.cluster.bootstrap.servers": up.bootstrap,
        "target.cluster.bootstrap.servers": up.bootstrap,
        "topics": "none",
    }
    answer = up.rest.started("PUT", "/connector-plugins/KafkaSource/config/validate", config)
    assert answer.status_code == 200
    errors = [error for one in answer.json()["configs"] for error in one["value"]["errors"]]
    assert REFUSED not in str(errors)


def test_an_account_ends_it_and_an_editor_gets_nowhere(up: Up) -> None:
    """The last one: from here on, everybody logs in."""
    run(up, "users", "create", "editor-a", "--no-password", "--allow", "editor", "--pattern", "team-a-*")
    token = run(up, "tokens", "create", "editor-a", "work", "--allow", "admin").strip()
    assert up.rest.call("GET", "/connectors").status_code == 401
    eventually(
        lambda: "A login is required" in up.output.read_text(),
        30,
        lambda: f"the line of the console:\n{up.output.read_text()}",
    )
    told = up.output.read_text()
    assert "There is an account or a token" in told
    assert "A login is required from now on" in up.log("web")
    link = re.findall(r"http://\S+/ui/login\?link=\S+", told)[-1]
    with httpx.Client(timeout=60) as browser:
        assert browser.get(link).status_code == 302
        assert browser.get(f"http://{up.http}/connectors").status_code == 200
    editor, boss = Rest(f"http://{up.http}"), Rest(f"http://{up.http}")
    editor._client.headers["Authorization"] = f"Bearer {token}"
    boss._client.headers["Authorization"] = f"Bearer {Path(up.data / 'token').read_text().strip()}"
    try:
        before = requests_without_login(boss)  # of the user, who needed no login until now
        try_out(up, editor)
        assert boss.expect(200, "GET", "/connectors") == []
        assert requests_without_login(boss) == before
    finally:
        editor.close()
        boss.close()
