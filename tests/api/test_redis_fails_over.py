"""Redis behind Sentinels: the primary is killed or frozen, and commands go on without a restart of anything of ours."""

import ast
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from celery.contrib.testing.worker import start_worker
from kombu.connection import Connection

from ringfence import dispatch, messages, redis_client, transport
from ringfence.celery import app as ringfence_app
from ringfence.dispatch import Refusal
from ringfence.heartbeats.cluster_view import CLUSTER_MODE, probe_redis
from ringfence.local.ports import accepts, free_port
from ringfence.local.valkey import find_server
from ringfence.redis_results import backend
from tests.support.commands import command_named
from tests.support.sentinels import PRIMARY, SENTINEL_PASSWORD, Sentinels
from tests.support.waiting import eventually

real_command = dispatch.command  # before the stand-in of the other tests takes its place


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sentinels]:
    made = Sentinels(tmp_path)
    monkeypatch.setattr(redis_client, "_primary", PRIMARY)
    monkeypatch.setattr(redis_client, "_sentinel_password", SENTINEL_PASSWORD)
    with contextlib.closing(made):
        made.start()
        monkeypatch.setattr(transport, "app", transport.client(made.url))
        monkeypatch.setattr(transport, "results", transport.store(made.url))
        yield made


@pytest.fixture
def worker(servers: Sentinels) -> Iterator[None]:
    options = redis_client.celery_options(servers.url)
    app = Celery("stub", broker=servers.url, backend=backend(servers.url), task_cls=messages.BoundTask)
    messages.use(app)

    @app.task(name="ringfence.leader.command", shared=False)  # type: ignore[untyped-decorator]
    def command(command: dict[str, Any], deadline: float) -> dict[str, Any]:
        return {"ok": True, "value": command["body"]}

    app.conf.update(
        worker_hijack_root_logger=False,
        broker_transport_options={**ringfence_app.conf.broker_transport_options, **options},
        result_backend_transport_options=options,
        redis_socket_timeout=ringfence_app.conf.redis_socket_timeout,
        redis_socket_connect_timeout=ringfence_app.conf.redis_socket_connect_timeout,
    )
    running = {"pool": "threads", "concurrency": 2, "perform_ping_check": False, "queues": ["leader"]}
    with start_worker(app, shutdown_timeout=60, **running):
        yield


def answers(number: int) -> bool:
    with contextlib.suppress(Refusal):
        return bool(real_command(command_named("echo", "c", {"number": number}), timeout=5).value == {"number": number})
    return False


def test_commands_go_on_with_the_new_primary(servers: Sentinels, worker: None) -> None:
    assert answers(1)
    first = servers.primary()
    servers.kill(first)
    eventually(lambda: answers(2), 60, "commands are answered again")
    assert servers.primary() != first


def test_a_primary_that_is_frozen_is_left_and_is_not_used_when_it_wakes_up(servers: Sentinels, worker: None) -> None:
    assert answers(1)
    first = servers.primary()
    os.kill(servers.pid(first), signal.SIGSTOP)
    try:
        eventually(lambda: answers(2), 60, "commands are answered again")
        assert servers.primary() != first
    finally:
        os.kill(servers.pid(first), signal.SIGCONT)
    servers.await_replica(first)
    assert answers(3)
    assert servers.primary() != first


def test_an_address_of_another_kind_among_sentinels_is_refused() -> None:
    with pytest.raises(ValueError, match="sentinel://host:26379"):
        redis_client.connect("sentinel://127.0.0.1:1;redis://127.0.0.1:2/0")


def test_a_worker_that_has_removed_its_variables_knows_the_sentinels() -> None:
    """It does so before it starts Celery, Spark and plugins (`engine/spark/connector_limits.py`)."""
    code = (
        "import os; from ringfence import redis_client; from ringfence.engine.spark.connector_limits import let_go; "
        "let_go(os.environ); print(redis_client.celery_options())"
    )
    variables = {
        "RINGFENCE_REDIS_URL": "sentinel://127.0.0.1:1",
        "RINGFENCE_REDIS_PRIMARY": PRIMARY,
        "RINGFENCE_REDIS_SENTINEL_PASSWORD": SENTINEL_PASSWORD,
    }
    run = subprocess.run([sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True)
    options = ast.literal_eval(run.stdout)
    assert options["master_name"] == PRIMARY
    assert options["sentinel_kwargs"]["password"] == SENTINEL_PASSWORD


@pytest.fixture
def cluster_node(tmp_path: Path) -> Iterator[int]:
    """A server in cluster mode that has all slots: even alone it refuses commands on keys of several slots."""
    port = free_port()
    command = [str(find_server()), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--cluster-enabled", "yes"]
    # By default the port and 10,000, which may be none.
    command += ["--cluster-port", str(free_port())]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    try:
        eventually(lambda: accepts("127.0.0.1", port), 20, "it listens")
        ask: Any = client.execute_command
        ask("CLUSTER ADDSLOTSRANGE", 0, 16383)
        eventually(lambda: ask("CLUSTER INFO")["cluster_state"] == "ok", 20, "it takes commands")
        yield port
    finally:
        client.close()
        process.kill()
        process.wait()


def test_cluster_mode_is_refused_with_the_remedy(cluster_node: int) -> None:
    """And kombu cannot use it, which is why."""
    url = f"redis://127.0.0.1:{cluster_node}/0"
    connect: Any = Connection
    with connect(url) as connection, pytest.raises(redis.exceptions.ClusterCrossSlotError):
        connection.SimpleQueue("leader").get(timeout=5)
    assert probe_redis(url) == CLUSTER_MODE
    assert "Sentinels" in CLUSTER_MODE
