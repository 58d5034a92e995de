"""What cannot be right is refused in words that say what and where; the rest goes on."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from tests.e2e.flow import Flow
from tests.e2e.rest import Json
from tests.e2e.topics import CONFIGS, write
from tests.e2e.up import Up, environment
from tests.support.names import unique
from tests.support.waiting import eventually

Make = Callable[..., Flow]
TIMEOUT = "producer.override.transaction.timeout.ms"
TRANSACTION_SECONDS = 600
"""How long the broker keeps a transaction open that nobody ends."""


@pytest.mark.parametrize(
    "config, words",
    [
        ({"connector.class": "NoSuchSource", "topic": "t"}, ["NoSuchSource"]),
        ({"topic": "t"}, ["contains no connector type"]),
        ({"connector.class": "VerifiableSource"}, ["Missing required configuration", "topic"]),
        ({"connector.class": "VerifiableSource", "topic": "t", "throughput": "fast"}, ["throughput", "fast"]),
        ({"connector.class": "VerifiableSource", "topic": "t", "tasks.max": "0"}, ["tasks.max"]),
        ({"connector.class": "FileStreamSource", "topic": "t", "file": "/no/such/file"}, ["/no/such/file"]),
        (
            {"connector.class": "VerifiableSource", "topic": "t", TIMEOUT: "900001"},
            ["the broker allows 900000 ms", "Shorten the interval"],
        ),
    ],
)
def test_a_configuration_that_cannot_work_creates_nothing(platform: Up, config: Json, words: list[str]) -> None:
    name = unique("bad")

    def refused() -> httpx.Response | None:
        answer = platform.rest.started("POST", "/connectors", {"name": name, "config": config})
        if answer.status_code == 201 and TIMEOUT in config:
            # Only the broker knows. On a busy machine it is not asked in time, and what is not known refuses nothing.
            platform.rest.settled(204, "DELETE", f"/connectors/{name}")
            return None
        return answer

    answer = eventually(refused, 60, "the broker's answer in time", pause=0.3)
    assert answer is not None
    assert answer.status_code == 400
    assert set(answer.json()) == {"error_code", "message"}
    assert all(word in answer.json()["message"] for word in words), answer.text
    assert platform.rest.call("GET", f"/connectors/{name}").status_code == 404


def test_what_is_no_json_is_refused(platform: Up) -> None:
    answer = platform.rest.call(
        "POST", "/connectors", content=b'{"name": ', headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (400, 500)
    assert answer.json()["error_code"] == answer.status_code
    assert "JSON" in answer.json()["message"]


@pytest.mark.thorough
def test_a_source_that_goes_away_fails_its_task_with_the_reason(platform: Up, flow: Make, tmp_path: Path) -> None:
    file, name = tmp_path / "lines.txt", unique("file")
    file.write_text("one\ntwo\n")
    other = flow()
    config = {"connector.class": "FileStreamSource", "topic": other.name + "-lines", "file": str(file)}
    platform.rest.create(name, config)
    try:
        eventually(lambda: platform.rest.expect(200, "GET", f"/connectors/{name}/offsets")["offsets"], 30, pause=0.2)
        file.unlink()
        task = eventually(lambda: failed_task(platform, name), 30, "a failed task", pause=0.2)
        assert task is not None
        assert str(file) in task["trace"]
        other.await_progress()
        file.write_text("one\ntwo\nthree\n")
        platform.rest.settled(204, "POST", f"/connectors/{name}/tasks/0/restart")
        read_all = {"partition": {"filename": str(file)}, "offset": {"position": 14}}
        shown = f"/connectors/{name}/offsets"
        eventually(lambda: platform.rest.expect(200, "GET", shown)["offsets"] == [read_all], 30, pause=0.2)
    finally:
        platform.rest.settled(204, "DELETE", f"/connectors/{name}")


def failed_task(up: Up, name: str) -> Json | None:
    return next((task for task in up.rest.status(name)["tasks"] if task["state"] == "FAILED"), None)


def test_an_unreadable_record_stops_its_connector_and_no_other(platform: Up, flow: Make) -> None:
    broken, other = flow(), flow()
    offset = write(platform, CONFIGS, f"connector-{broken.name}".encode(), b"{no json")
    eventually(lambda: broken.status()["connector"]["state"] == "FAILED", 20, "FAILED", pause=0.1)
    trace = broken.status()["connector"]["trace"]
    assert CONFIGS in trace
    assert f"offset {offset}" in trace
    assert f"connector-{broken.name}" in trace
    eventually(lambda: broken.rests(), 20, "the end of its records")
    other.settle()
    broken.configure(tasks=1)  # a readable record under that key
    broken.await_progress()
    broken.settle()


@pytest.mark.slow
def test_a_second_worker_of_the_same_name_is_refused(platform: Up) -> None:
    settings = {
        **platform.kafka_variables,
        "CONNECT_EXACTLY_ONCE_SOURCE_SUPPORT": "enabled",
        "RINGFENCE_REDIS_URL": platform.redis_url,
        "RINGFENCE_ENCRYPTION_KEY_FILE": str(platform.data / "encryption-keys"),
        "RINGFENCE_DATABASE_URL": f"sqlite:///{platform.data / 'ringfence.sqlite3'}",
        "RINGFENCE_SECRET_KEY": os.urandom(8).hex(),
    }
    command = [sys.executable, "-m", "ringfence.cli", "worker", "--id", "worker-1"]
    env = environment(settings)
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, check=False)
    assert refused.returncode == 1
    assert "A live worker in group ringfence already has the id worker-1" in refused.stderr
    assert "--id" in refused.stderr


@pytest.mark.thorough
def test_a_commit_that_the_broker_refuses_leaves_no_transaction_open(platform: Up, flow: Make) -> None:
    """Else every reader of committed records, and other connectors' starts, would wait for ten minutes."""
    topic = unique("small")
    create_topics(platform.connection, [TopicSpec(topic, config={"max.message.bytes": "100"})], Deadline.after(30))
    config = {
        "connector.class": "VerifiableSource",
        "topic": topic,
        "throughput": "1000",
        "complete.record.data": "true",
        "producer.override.transaction.timeout.ms": str(TRANSACTION_SECONDS * 1000),
        "auto.restart.enabled": "false",
    }
    name = unique("refused")
    platform.rest.create(name, config)
    try:
        eventually(lambda: failed_task(platform, name), 60, "a failed task", pause=0.05)
        asked = time.monotonic()
        flow()
        took = time.monotonic() - asked
        print(f"Another connector moved records {took:.1f} s after it was asked for")
        assert took < TRANSACTION_SECONDS / 10
        (id_,) = platform.rest.expect(200, "GET", f"/api/v1/connectors/{name}/transactions")["transactions"]
        assert not id_["open"], id_
    finally:
        platform.rest.settled(204, "DELETE", f"/connectors/{name}")
