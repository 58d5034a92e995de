"""The provider of Kafka Connect for Terraform (Mongey's), unchanged: its calls, and itself where it is there."""

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import httpx
import pytest

from tests.support.leader import FakeLeader

CONFIG = {"name": "numbers", "connector.class": "VerifiableSource", "topic": "numbers", "tasks.max": "1"}

PIN = "${file:/etc/secrets/numbers.properties:pin}"


class Handler(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def get_environ(self) -> dict[str, str]:
        """A request without a body has no type: wsgiref invents one."""
        environ = super().get_environ()
        return environ if "content-type" in self.headers else {**environ, "CONTENT_TYPE": ""}


@pytest.fixture
def url() -> Iterator[str]:
    """The server of this process, on a port."""
    from django.core.wsgi import get_wsgi_application

    server: WSGIServer = make_server("127.0.0.1", 0, get_wsgi_application(), handler_class=Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_its_calls(url: str, leader: FakeLeader) -> None:
    """As its client library makes them: create and look until it is there, read, update and look until it is changed,
    delete and look until it is gone.
    """
    with httpx.Client(base_url=url, timeout=60, headers={"Accept": "application/json"}) as http:
        created = http.post("/connectors", json={"name": "numbers", "config": CONFIG})
        assert (created.status_code, created.json()["config"]) == (201, CONFIG)
        found = http.get("/connectors/numbers")  # at once: the provider does not wait out a 404 here
        assert found.status_code == 200
        assert (found.json()["name"], found.json()["config"]) == ("numbers", CONFIG)
        changed = {**CONFIG, "tasks.max": "2", "pin": PIN}
        assert http.put("/connectors/numbers/config", json=changed).status_code == 200
        # It waits until it reads just what it has written. A secret itself would be hidden, and it would wait in vain.
        assert http.get("/connectors/numbers/config").json() == changed
        assert http.get("/connectors/numbers").json()["config"] == changed
        leader.start("numbers")
        assert http.delete("/connectors/numbers").status_code == 204
        assert http.get("/connectors/numbers").status_code == 404


@pytest.fixture
def terraform(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Terraform with the provider in the folder RINGFENCE_TEST_TERRAFORM_PROVIDER.

    No registry that the tests can use has the provider, so it is not there by itself.
    """
    program = shutil.which("terraform") or shutil.which("tofu")
    provider = os.environ.get("RINGFENCE_TEST_TERRAFORM_PROVIDER")
    if program is None or provider is None:
        pytest.skip("no terraform, or RINGFENCE_TEST_TERRAFORM_PROVIDER does not name the folder of its provider")
    settings = tmp_path / "terraformrc"
    settings.write_text(
        f'provider_installation {{\n dev_overrides {{ "Mongey/kafka-connect" = "{provider}" }}\n direct {{}}\n}}\n'
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "TF_CLI_CONFIG_FILE": str(settings), "CHECKPOINT_DISABLE": "1"}
        command = [program, f"-chdir={tmp_path}", *arguments, "-no-color"]
        return subprocess.run(command, capture_output=True, text=True, timeout=200, env=variables, check=False)

    return run


@pytest.mark.program
def test_terraform_itself(
    url: str, leader: FakeLeader, terraform: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    def write(tasks: int) -> None:
        (tmp_path / "main.tf").write_text(
            f"""
            terraform {{
              required_providers {{
                kafka-connect = {{ source = "Mongey/kafka-connect" }}
              }}
            }}
            provider "kafka-connect" {{
              url = "{url}"
            }}
            resource "kafka-connect_connector" "numbers" {{
              name   = "numbers"
              config = {{
                "name" = "numbers", "connector.class" = "VerifiableSource", "topic" = "numbers", "tasks.max" = {tasks}
              }}
              config_sensitive = {{ "pin" = "${PIN}" }}
            }}
            """
        )

    for tasks in (1, 2):
        write(tasks)
        done = terraform("apply", "-auto-approve")
        assert done.returncode == 0, done.stdout + done.stderr
        assert httpx.get(f"{url}/connectors/numbers/config").json()["tasks.max"] == str(tasks)
        again = terraform("plan", "-detailed-exitcode")
        assert again.returncode == 0, again.stdout + again.stderr  # nothing drifts
        leader.start("numbers")
    assert PIN not in done.stdout
    done = terraform("destroy", "-auto-approve")
    assert done.returncode == 0, done.stdout + done.stderr
    assert httpx.get(f"{url}/connectors/numbers").status_code == 404
