"""The config topic is deleted while all works: the platform stands still and says so, until a person restores it."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import delete_topics
from tests.e2e.flow import Flow
from tests.e2e.topics import CONFIGS
from tests.e2e.up import Up, environment
from tests.support.names import unique
from tests.support.waiting import eventually


@pytest.fixture
def empty(up: Up) -> Up:
    """Without the connectors of other tests. It comes to harm, and is whole again in the end."""
    for name in up.rest.expect(200, "GET", "/connectors"):
        up.rest.settled(204, "DELETE", f"/connectors/{name}")
    eventually(lambda: up.rest.expect(200, "GET", "/connectors") == [], 30, "no connectors", pause=0.2)
    return up


def run(up: Up, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command on the platform's machine."""
    return subprocess.run(
        [sys.executable, "-m", "ringfence.cli", *arguments, "--data", str(up.data)],
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
def test_a_lost_config_topic_stops_everything_and_is_restored_exactly_once(empty: Up, tmp_path: Path) -> None:
    up = empty
    one = Flow(up, unique("flow"), throughput=500, interval_ms=200).create()
    paused = Flow(up, unique("paused"), throughput=0).create()
    up.rest.settled(202, "PUT", f"/connectors/{paused.name}/pause")
    file = tmp_path / "backup.json"
    kept = run(up, "backup", str(file))
    assert kept.returncode == 0, kept.stderr
    assert "SECRETS" in kept.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["connectors"].keys() == {one.name, paused.name}
    assert run(up, "topics", "show").returncode == 0
    refused = run(up, "restore", str(file), "--yes")
    assert "a worker is running" in refused.stderr

    before = up.pid("worker-1")
    delete_topics(up.connection, [CONFIGS], Deadline.after(30))
    eventually(lambda: up.rest.call("GET", "/health").status_code == 500, 30, "health says so", pause=0.2)
    eventually(lambda: up.pid("worker-1") != before, 60, "the worker has ended", pause=0.2)
    assert one.rests(3)  # no task goes on
    for _ in range(2):  # at the loss, and after a routine restart: nothing is created, nothing is forgotten
        health = up.rest.call("GET", "/health").json()
        assert health["status"] == "unhealthy"
        assert CONFIGS in health["message"]
        assert "ringfence restore" in health["message"]
        assert sorted(up.rest.expect(200, "GET", "/connectors")) == sorted([one.name, paused.name])
        answer = up.rest.call("PUT", f"/connectors/{one.name}/pause")
        assert answer.status_code == 503
        assert "Nothing was changed" in answer.json()["message"]
        assert "is lost" in up.rest.call("GET", "/ui/", headers={"Accept": "text/html"}).text
        worker = up.pid("worker-1")
        eventually(lambda: "Tasks end, and nothing is written" in up.log("worker-1"), 60, "the log says so", pause=0.2)
        os.kill(worker, signal.SIGTERM)
        eventually(lambda pid=worker: up.pid("worker-1") != pid, 60, "a new worker", pause=0.2)  # type: ignore[misc]
    shown = run(up, "topics", "show")
    assert shown.returncode == 1
    assert "lost" in shown.stdout

    restored = run(up, "restore", str(file), "--yes")
    assert restored.returncode == 0, restored.stderr
    assert "restored 2 connectors" in restored.stdout
    eventually(lambda: up.rest.call("GET", "/health").status_code == 200, 90, "health is good", pause=0.2)
    one.settle()
    assert paused.states() == ["PAUSED", "PAUSED"]
    for each in (one, paused):
        each.close()
