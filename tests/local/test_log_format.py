"""Each log line of web and worker is a JSON object on request."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from ringfence.local.ports import free_port
from tests.e2e.up import environment
from tests.support.waiting import eventually

_DATABASE = "RINGFENCE_DATABASE_URL"


def objects(path: Path) -> list[dict[str, object]]:
    """The file's lines. Raises ValueError for one that is no JSON."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("by", ["flag", "variable"])
def test_web_writes_objects(tmp_path: Path, by: str) -> None:
    address, log = f"127.0.0.1:{free_port()}", tmp_path / "web.log"
    settings = {_DATABASE: f"sqlite:///{tmp_path}/db.sqlite3", "RINGFENCE_ENCRYPTION_KEYS": os.urandom(32).hex()}
    settings |= {"RINGFENCE_LOG_FORMAT": "json"} if by == "variable" else {}
    flags = ["--log-format", "json"] if by == "flag" else []
    with log.open("w") as output:
        web = subprocess.Popen(
            [sys.executable, "-m", "ringfence.cli", "web", "--http", address, *flags],
            env=environment(settings), stdout=output, stderr=output, cwd=tmp_path,
        )  # fmt: skip
    try:
        eventually(lambda: web.poll() is None and _is_up(address), 60, "the web process is up", pause=0.1)
        answer = httpx.get(f"http://{address}/connectors", headers={"X-Request-ID": "deploy-19"})
        assert answer.headers["X-Request-ID"] == "deploy-19"
    finally:
        web.send_signal(signal.SIGTERM)
        web.wait(30)
    lines = objects(log)
    (line,) = [line for line in lines if line.get("path") == "/connectors"]
    assert line["request_id"] == "deploy-19"
    assert line["status"] == answer.status_code
    assert {line["process"] for line in lines} == {"web"}
    assert "uvicorn.error" in {line["logger"] for line in lines}, "its lines go the same way"


def _is_up(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/health/live").status_code == 200
    except httpx.TransportError:
        return False


def test_a_worker_writes_objects(tmp_path: Path) -> None:
    """This one ends at once, because it has no key."""
    done = subprocess.run(
        [sys.executable, "-m", "ringfence.cli", "worker", "--id", "w", "--log-format", "json"],
        env=environment({"CONNECT_BOOTSTRAP_SERVERS": "127.0.0.1:1", _DATABASE: f"sqlite:///{tmp_path}/db.sqlite3"}),
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["level"] for line in lines if line["worker"] == "w"][-1] == "ERROR", lines
