"""`ringfence apply` and Terraform against a running platform: records flow, and nothing is left to do afterwards."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def test_the_calls_of_the_terraform_provider(platform: Up) -> None:
    """As version 0.4 of Mongey's provider and its client library make them: create, look until it is there, read,
    update, look until it is changed, delete, look until it is gone.
    """
    name, rest = unique("terraform"), platform.rest
    config = {"name": name, "connector.class": "VerifiableSource", "topic": name, "tasks.max": "1", "throughput": "10"}
    created = rest.settled(201, "POST", "/connectors", {"name": name, "config": config})
    assert created["config"] == config
    path = f"/connectors/{name}"
    found = rest.expect(200, "GET", path)  # at once: the provider has no patience for a 404 here
    assert (found["name"], found["config"], found["type"]) == (name, config, "source")
    changed = {**config, "throughput": "20", "db.password": "not-shown"}
    rest.settled(200, "PUT", f"{path}/config", changed)
    read = rest.expect(200, "GET", path)["config"]
    assert {key: value for key, value in read.items() if key != "db.password"} == {**config, "throughput": "20"}
    assert read["db.password"] == "[hidden]"  # the provider leaves out what stands in config_sensitive
    assert rest.expect(200, "GET", f"{path}/config") == read
    rest.settled(204, "DELETE", path)
    assert rest.call("GET", path).status_code == 404


@pytest.fixture
def terraform(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Terraform with the provider of RINGFENCE_TEST_TERRAFORM_PROVIDER, a folder that holds its program."""
    program, provider = (
        shutil.which("terraform") or shutil.which("tofu"),
        os.environ.get("RINGFENCE_TEST_TERRAFORM_PROVIDER"),
    )
    if program is None or provider is None:
        pytest.skip("no terraform, or RINGFENCE_TEST_TERRAFORM_PROVIDER does not name the folder of its provider")
    settings = tmp_path / "terraformrc"
    settings.write_text(
        f'provider_installation {{\n dev_overrides {{ "Mongey/kafka-connect" = "{provider}" }}\n direct {{}}\n}}\n'
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {**environment({}), "TF_CLI_CONFIG_FILE": str(settings), "CHECKPOINT_DISABLE": "1"}
        command = [program, f"-chdir={tmp_path}", *arguments, "-no-color"]
        return subprocess.run(command, capture_output=True, text=True, timeout=200, env=variables, check=False)

    return run


def test_terraform_itself(platform: Up, terraform: Any, tmp_path: Path) -> None:
    name = unique("terraform")

    def write(throughput: int) -> None:
        (tmp_path / "main.tf").write_text(
            f"""
            terraform {{ required_providers {{ kafka-connect = {{ source = "Mongey/kafka-connect" }} }} }}
            provider "kafka-connect" {{ url = "http://{platform.http}" }}
            resource "kafka-connect_connector" "numbers" {{
              name   = "{name}"
              config = {{
                "name" = "{name}", "connector.class" = "VerifiableSource", "topic" = "{name}"
                "tasks.max" = 1, "throughput" = {throughput}
              }}
              config_sensitive = {{ "db.password" = "a-password" }}
            }}
            """
        )

    write(10)
    for throughput in (10, 20):
        write(throughput)
        done = terraform("apply", "-auto-approve")
        assert done.returncode == 0, done.stdout + done.stderr
        assert platform.rest.expect(200, "GET", f"/connectors/{name}")["config"]["throughput"] == str(throughput)
        again = terraform("plan", "-detailed-exitcode")
        assert again.returncode == 0, again.stdout + again.stderr  # no drift
    assert terraform("destroy", "-auto-approve").returncode == 0
    assert platform.rest.call("GET", f"/connectors/{name}").status_code == 404
