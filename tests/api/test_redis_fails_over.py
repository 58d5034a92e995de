"""Redis behind Sentinels: the primary is killed or frozen, and commands go on without a restart of anything of ours."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from celery.contrib.testing.worker import start_worker

from ringfence import dispatch, messages, redis_client, transport
from ringfence.celery import app as ringfence_app
from ringfence.dispatch import Refusal
from ringfence.local.ports import accepts, free_ports
from ringfence.local.valkey import find_server
from ringfence.redis_results import backend
from tests.support.commands import command_named
from tests.support.waiting import eventually

real_command = dispatch.command  # before the stand-in of the other tests takes its place

PASSWORD = "of-the-servers"
SENTINEL_PASSWORD = "of-the-sentinels"
_DOWN_MS = 1_000


class Servers:
    """A primary, its replica, and two Sentinels that agree by one vote."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.ports = free_ports(4)
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        one, other = self.ports[2:]
        return f"sentinel://:{PASSWORD}@127.0.0.1:{one};sentinel://127.0.0.1:{other}/0"

    def start(self) -> None:
        primary, replica, *sentinels = self.ports
        shared = f'bind 127.0.0.1\nsave ""\nrequirepass {PASSWORD}\nmasterauth {PASSWORD}\nrepl-diskless-sync-delay 0\n'
        self._launch(primary, shared)
        self._launch(replica, f"{shared}replicaof 127.0.0.1 {primary}\n")
        self.await_replica(replica)  # or Sentinels learn of it ten seconds later
        for port in sentinels:
            lines = (
                f"bind 127.0.0.1\nrequirepass {SENTINEL_PASSWORD}\nsentinel sentinel-pass {SENTINEL_PASSWORD}\n"
                f"sentinel monitor queues 127.0.0.1 {primary} 1\nsentinel auth-pass queues {PASSWORD}\n"
                f"sentinel down-after-milliseconds queues {_DOWN_MS}\nsentinel failover-timeout queues 5000\n"
            )
            self._launch(port, lines, "--sentinel")
        for port in sentinels:
            client = self._client(port, SENTINEL_PASSWORD)
            eventually(partial(client.execute_command, "SENTINEL", "REPLICAS", "queues"), 30, "the replica is known")

    def await_replica(self, port: int) -> None:
        client = self._client(port, PASSWORD)

        def follows() -> bool:
            with contextlib.suppress(redis.RedisError):  # it closes its connections when it becomes a replica
                return bool(client.info("replication").get("master_link_status") == "up")
            return False

        eventually(follows, 30, "the replica follows")

    def primary(self) -> int:
        """The port of the one that takes writes now, as the first Sentinel says."""
        return int(self._client(self.ports[2], SENTINEL_PASSWORD).sentinel_get_master_addr_by_name("queues")[1])

    def pid(self, port: int) -> int:
        return self._running[port].pid

    def kill(self, port: int) -> None:
        self._running[port].kill()
        self._running.pop(port).wait()

    def close(self) -> None:
        for port in list(self._running):
            self.kill(port)

    def _launch(self, port: int, lines: str, *options: str) -> None:
        folder = self._root / str(port)
        folder.mkdir()
        file = folder / "valkey.conf"
        file.write_text(f"port {port}\ndir {folder}\n{lines}")
        with (folder / "log").open("wb") as log:
            command = [str(find_server()), str(file), *options]
            self._running[port] = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        eventually(lambda: accepts("127.0.0.1", port), 20, f"{options} listens")

    def _client(self, port: int, password: str) -> Any:
        return redis_client.connect(f"redis://:{password}@127.0.0.1:{port}/0", socket_timeout=5)


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    monkeypatch.setenv("RINGFENCE_REDIS_PRIMARY", "queues")
    monkeypatch.setenv("RINGFENCE_REDIS_SENTINEL_PASSWORD", SENTINEL_PASSWORD)
    made = Servers(tmp_path)
    with contextlib.closing(made):
        made.start()
        monkeypatch.setattr(transport, "app", transport.client(made.url))
        monkeypatch.setattr(transport, "results", transport.store(made.url))
        yield made


@pytest.fixture
def worker(servers: Servers) -> Iterator[None]:
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


def test_commands_go_on_with_the_new_primary(servers: Servers, worker: None) -> None:
    assert answers(1)
    first = servers.primary()
    servers.kill(first)
    eventually(lambda: answers(2), 60, "commands are answered again")
    assert servers.primary() != first


def test_a_primary_that_is_frozen_is_left_and_is_not_used_when_it_wakes_up(servers: Servers, worker: None) -> None:
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
