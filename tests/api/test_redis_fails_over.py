"""Redis behind Sentinels, and in cluster mode: the primary is killed or frozen, and commands go on without a restart of
anything of ours.
"""

import ast
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from celery import Celery
from celery.contrib.testing.worker import start_worker
from redis.backoff import NoBackoff
from redis.retry import Retry

from ringfence import dispatch, messages, redis_client, transport
from ringfence.celery import app as ringfence_app
from ringfence.dispatch import Refusal
from ringfence.heartbeats.cluster_view import CLUSTER_MODE, probe_redis
from ringfence.local.valkey import EmbeddedValkey
from ringfence.redis_broker import Broker
from ringfence.redis_results import backend
from tests.support.commands import command_named
from tests.support.redis_servers import PASSWORD, PRIMARY, SENTINEL_PASSWORD, RedisCluster, Sentinels
from tests.support.waiting import eventually

real_command = dispatch.command  # before the stand-in of the other tests takes its place


@pytest.fixture(params=[Sentinels, RedisCluster])
def servers(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sentinels | RedisCluster]:
    made = request.param(tmp_path)
    monkeypatch.setattr(redis_client, "_primary", PRIMARY)
    monkeypatch.setattr(redis_client, "_sentinel_password", SENTINEL_PASSWORD)
    with contextlib.closing(made):
        made.start()
        monkeypatch.setattr(transport, "app", transport.client(made.url))
        monkeypatch.setattr(transport, "results", transport.store(made.url))
        yield made


@pytest.fixture
def worker(servers: Sentinels | RedisCluster) -> Iterator[None]:
    options = redis_client.celery_options(servers.url)
    app = Celery("stub", broker=servers.url, backend=backend(servers.url), amqp=Broker, task_cls=messages.BoundTask)
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


def test_commands_go_on_with_the_new_primary(servers: Sentinels | RedisCluster, worker: None) -> None:
    assert answers(1)
    first = servers.primary()
    servers.kill(first)
    eventually(lambda: answers(2), 60, "commands are answered again")
    assert servers.primary() != first


def test_a_primary_that_is_frozen_is_left_and_is_not_used_when_it_wakes_up(
    servers: Sentinels | RedisCluster, worker: None
) -> None:
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


@pytest.mark.parametrize("servers", [RedisCluster], indirect=True)
def test_keys_that_move_in_order_are_followed_at_once(servers: RedisCluster, worker: None) -> None:
    """The old server lives, and answers on its connections that another one has the keys."""
    assert answers(1)
    first = servers.primary()
    servers.hand_over()
    eventually(lambda: servers.primary() != first, 30, "the replica has the keys")
    eventually(lambda: answers(2), 30, "commands are answered again")
    prefix = redis_client.key_prefix(servers.url)
    with contextlib.closing(redis_client.connect(servers.url)) as client:
        client.set(f"{prefix}name", "value")
        pool: Any = client.connection_pool
        assert pool.master_address == ("127.0.0.1", servers.primary())


@pytest.mark.parametrize("servers", [RedisCluster], indirect=True)
def test_open_connections_notice_that_the_keys_have_moved(servers: RedisCluster) -> None:
    key = f"{redis_client.key_prefix(servers.url)}name"

    async def follow() -> bytes | None:
        client = redis_client.connect_asynchronously(servers.url, socket_connect_timeout=2)
        async with client, client.pubsub() as subscription:
            await subscription.subscribe("changes")
            await client.set(key, "before")
            first = servers.primary()
            servers.hand_over()
            while servers.primary() == first:
                await asyncio.sleep(0.05)
            async with asyncio.timeout(30):
                while True:
                    with contextlib.suppress(redis.ConnectionError):
                        await client.set(key, "after")
                        return cast(bytes | None, await client.get(key))

    with contextlib.closing(redis_client.connect(servers.url, retry=Retry(NoBackoff(), 0))) as client:
        client.set(key, "1")
        assert asyncio.run(follow()) == b"after"
        with pytest.raises(redis.ConnectionError, match="has our keys now"):
            client.get(key)
        assert client.get(key) == b"after"


def test_an_address_of_another_kind_among_sentinels_is_refused() -> None:
    with pytest.raises(ValueError, match="sentinel://host:26379"):
        redis_client.connect("sentinel://127.0.0.1:1;redis://127.0.0.1:2/0")
    with pytest.raises(ValueError, match="cluster://host:6379"):
        redis_client.connect("cluster://127.0.0.1:1;redis://127.0.0.1:2/0")
    with pytest.raises(ValueError, match="database 0"):
        redis_client.connect("cluster://127.0.0.1:1/2")


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


@pytest.mark.parametrize("servers", [RedisCluster], indirect=True)
def test_cluster_mode_under_an_address_of_one_server_is_refused_with_the_remedy(servers: RedisCluster) -> None:
    url = f"redis://:{PASSWORD}@127.0.0.1:{servers.primary()}/0"
    assert probe_redis(url) == CLUSTER_MODE
    assert "cluster://" in CLUSTER_MODE
    assert probe_redis(servers.url) == ""


def test_an_address_of_a_cluster_for_another_server_is_refused_with_the_remedy(valkey: EmbeddedValkey) -> None:
    assert "is not in cluster mode" in probe_redis(valkey.url.replace("redis://", "cluster://"))


@pytest.mark.parametrize("servers", [RedisCluster], indirect=True)
def test_a_cluster_that_is_down_says_what_its_servers_say(servers: RedisCluster) -> None:
    for port in servers.ports[2:4]:
        servers.kill(port)
    servers.kill(servers.primary())
    eventually(
        lambda: "the cluster is down" in probe_redis(servers.url), 30, lambda: probe_redis(servers.url), pause=0.2
    )
