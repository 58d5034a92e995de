"""`ringfence apply` against a running platform: records flow, and nothing is left to do afterwards."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.up import Up, environment
from tests.support.names import unique
from tests.support.waiting import eventually

pytestmark = pytest.mark.thorough


def apply(up: Up, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ringfence.cli", "apply", "--url", f"http://{up.http}", "-f", str(folder), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment({}), check=False)


def test_a_folder_is_applied_changed_and_pruned(platform: Up, tmp_path: Path) -> None:
    name, topic = unique("applied"), unique("applied")
    file = tmp_path / "files" / "numbers.yaml"
    file.parent.mkdir()
    resource = {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaConnector",
        "metadata": {"name": name},
        "spec": {"class": "VerifiableSource", "tasksMax": 1, "config": {"topic": topic, "throughput": 50}},
    }
    file.write_text(json.dumps(resource))  # which is YAML
    assert apply(platform, file.parent, "--dry-run").returncode == 10
    done = apply(platform, file.parent)
    assert done.returncode == 0, done.stderr
    running = [{"state": "RUNNING"}]
    eventually(
        lambda: [{"state": task["state"]} for task in platform.rest.status(name)["tasks"]] == running, 60, "it runs"
    )
    assert apply(platform, file.parent, "--dry-run").returncode == 0
    resource["spec"] |= {"tasksMax": 2}  # type: ignore[operator]
    file.write_text(json.dumps(resource))
    plan = apply(platform, file.parent, "--dry-run")
    assert "its tasks start again" in plan.stdout
    assert "~ tasks.max = 1 -> 2" in plan.stdout
    assert apply(platform, file.parent, "--yes").returncode == 0
    eventually(lambda: len(platform.rest.status(name)["tasks"]) == 2, 60, "two tasks", pause=0.2)
    others = [one for one in platform.rest.expect(200, "GET", "/connectors") if one != name]
    assert others == []
    file.write_text(json.dumps({**resource, "metadata": {"name": name + "-b"}}))
    done = apply(platform, file.parent, "--prune", "--yes")
    assert done.returncode == 0, done.stderr
    assert platform.rest.expect(200, "GET", "/connectors") == [name + "-b"]
    platform.rest.settled(204, "DELETE", f"/connectors/{name}-b")
