"""`make demo-debezium`: Debezium, a private PostgreSQL, kills while rows arrive, and a count at the end."""

import argparse
import json
import os
import sys
import time
from collections import Counter
from functools import partial

import httpx
import psutil
import psycopg

from ringfence.commands import up
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.leader.next_placement import pause_s
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.cache import cache_root
from ringfence.local.data_directory import default_root
from ringfence.local.errors import LocalError
from ringfence.local.plugin_installer import install_from_maven, parse_coordinates
from ringfence.local.running_platform import Running
from tests.support.postgres import LOGICAL, Postgres, new_postgres

PLUGIN = "io.debezium:debezium-connector-postgres:3.7.0.Final"
CLASS = "io.debezium.connector.postgresql.PostgresConnector"
JSON = "org.apache.kafka.connect.json.JsonConverter"
SNAPSHOT_ROWS, ROWS, STEP = 1000, 3000, 1000
SECONDS = 600.0


def main() -> int:
    """Return 1 if a row is missing or was repeated."""
    parser = argparse.ArgumentParser(prog="make demo-debezium")
    up.add_arguments(parser)
    parser.set_defaults(data=default_root() / "demo-debezium")
    args = parser.parse_args()
    with new_postgres(LOGICAL) as server:
        _insert(server, SNAPSHOT_ROWS, create=True)
        print(f"fetching {PLUGIN}")
        plugins = cache_root() / "plugins"
        install_from_maven(parse_coordinates(PLUGIN), plugins)
        os.environ["CONNECT_PLUGIN_PATH"] = os.environ["CONNECT_PLUGIN_INSTALL_PATH"] = str(plugins)
        return up.serve(args, partial(_job, server))


def _insert(server: Postgres, rows: int, *, create: bool = False) -> None:
    with psycopg.connect(server.url) as database:
        if create:
            database.execute("create table orders(id serial primary key, customer text)")
        database.execute(f"insert into orders(customer) select 'c' || g from generate_series(1, {rows}) g")


def _job(server: Postgres, running: Running) -> int:
    name = f"orders_{int(time.time())}"  # the server is new in each run
    topic = f"{name}.public.orders"
    connection = running.connection("demo-debezium")
    create_topics(connection, [TopicSpec(topic)], Deadline.after(30))
    config = {
        "connector.class": CLASS,
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": server.url.rpartition(":")[2].partition("/")[0],
        "database.user": "ringfence",
        "database.password": "none",
        "database.dbname": "ringfence",
        "topic.prefix": name,
        "table.include.list": "public.orders",
        "plugin.name": "pgoutput",
        "slot.name": name,
        "slot.retry.delay.ms": "500",
        "slot.max.retries": "40",
        "key.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "exactly.once.support": "required",
    }
    answer = httpx.post(f"{running.url}/connectors", json={"name": name, "config": config}, timeout=120)
    if answer.status_code != 201:
        raise LocalError(f"The connector could not be created: {answer.text}")
    _await(connection, topic, SNAPSHOT_ROWS, "the snapshot")
    for kills, there in enumerate(range(SNAPSHOT_ROWS, SNAPSHOT_ROWS + ROWS, STEP)):
        _insert(server, STEP)
        killed = _kill_java()
        print(
            f"{there:,} rows have arrived; {STEP:,} more; SIGKILL to {killed} Java processes; "
            f"the task restarts after {pause_s(kills)} s"
        )
        _await(connection, topic, there + STEP, "the rows since")
    counts = _count(connection, topic)
    twice = sum(times > 1 for times in counts.values())
    print(f"{len(counts):,} of {SNAPSHOT_ROWS + ROWS:,} rows arrived, {twice or 'none'} twice")
    return 1 if twice or len(counts) != SNAPSHOT_ROWS + ROWS else 0


def _await(connection: Connection, topic: str, rows: int, what: str) -> None:
    end = time.monotonic() + SECONDS
    while len(_count(connection, topic)) < rows:
        if time.monotonic() > end:
            raise LocalError(f"{what} did not arrive within {SECONDS:.0f} s: see the connector's page")
        time.sleep(1)


def _count(connection: Connection, topic: str) -> Counter[int]:
    """Return how often a read_committed consumer gets each row."""
    log = TopicLog(connection, topic)
    try:
        return Counter(json.loads(record.key)["id"] for record in log.read_to_end(Deadline.after(60)) if record.key)
    finally:
        log.close()


def _kill_java() -> int:
    """Kill the processes that run tasks and handle calls: each is started again."""
    hosts = [one for one in psutil.Process().children(recursive=True) if "io.ringfence.connect.Host" in _command(one)]
    for each in hosts:
        each.kill()
    return len(hosts)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


if __name__ == "__main__":
    sys.exit(main())
