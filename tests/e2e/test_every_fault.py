"""Faults of docs/exactly-once.md, made on a running platform: within 15 s all places say the same, and none says that
all is well while a connector delivers nothing.
"""

import html
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, delete_topics
from ringfence.local.guarded_process import process_exists
from tests.e2e import processes
from tests.e2e.flow import Flow
from tests.e2e.machine import watched
from tests.e2e.up import Up, UpOnASmallDisk, environment
from tests.support.broker import running_kafka
from tests.support.debezium_stage import SNAPSHOT_ROWS, orders_postgres
from tests.support.exchanged_files import exchange
from tests.support.health_places import read_places
from tests.support.java_plugins import DEBEZIUM, DEBEZIUM_CLASS, MIRROR, plugin_path
from tests.support.names import unique
from tests.support.orders_api import OrdersApi
from tests.support.small_disk import fill, new_small_disk
from tests.support.waiting import eventually

Make = Callable[..., Flow]
Note = Callable[[str, float], None]
Fault = Callable[[Up, Flow], AbstractContextManager[None]]
SAID_WITHIN_SECONDS = 15.0
NOTICED_WITHIN_SECONDS = 30.0
"""Where a connection that stays open says nothing, or a plugin tries again by itself before it reports."""
BYTES_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"


def say(up: Up, name: str) -> dict[str, Any]:
    """What all places say of the connector, and what the overview, the head of the pages and `/health` say of all."""

    def read(path: str) -> tuple[str, Any]:
        answer = up.rest.call("GET", path, headers={} if path.startswith("/api") else {"Accept": "text/html"})
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:300]}"
        return answer.text, answer.json() if path.startswith("/api") else None

    home = " ".join(read("/ui/")[0].split())
    health = up.rest.call("GET", "/health").json()
    return {
        "places": {**read_places(read, name), "command line": command_line(up, name)},
        "all is well": "All is well" in home or "Nothing needs attention" in home,
        "named": f'id="wrong-{name}"' in home,
        "head": "data-problem=" in home,
        "healthy": health["status"] == "healthy" and not health.get("connectors_need_attention"),
    }


def command_line(up: Up, name: str) -> str:
    ringfence = Path(sys.executable).with_name("ringfence")
    variables = environment({"RINGFENCE_URL": up.rest.url, "XDG_CONFIG_HOME": str(up.data)})
    command = [str(ringfence), "connectors", "status", name]
    printed = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=True).stdout
    return printed.split(" is ", 1)[1].split("\n")[0].split(":")[0].strip()


def data_as_of(up: Up, name: str) -> int:
    return int(up.rest.expect(200, "GET", f"/api/v1/connectors/{name}")["data_as_of_ms"])


def await_retrying(up: Up, name: str, since: float, stopwatch: Note, within: float = SAID_WITHIN_SECONDS) -> None:
    """All places say in time that the source is away. since: when it left."""
    said: dict[str, Any] = {}

    def is_said() -> bool:
        said.update(say(up, name))
        is_known = said["named"] and not said["healthy"] and not said["all is well"]
        return set(said["places"].values()) == {"RETRYING"} and is_known

    with watched() as promised:
        eventually(is_said, 60, lambda: str(said), pause=0.5)
        took = time.monotonic() - since
    stopwatch("said everywhere", took)
    assert took < promised(within)


def await_incident(up: Up, name: str, kinds: list[str]) -> None:
    """These kinds of incidents of the connector are open, and no other."""

    def incidents() -> list[str]:
        found = up.rest.expect(200, "GET", "/api/v1/alerts/incidents?limit=500")["results"]
        return [each["kind"] for each in found if each["connector"] == name and not each["resolved_ms"]]

    eventually(lambda: incidents() == kinds, 60, lambda: str(incidents()), pause=0.5)


def check_cause(up: Up, name: str, words: str, since: float, *, is_logged: bool = False) -> None:
    """API and page say why, since when, and when it is tried again. since: when the source left, since 1970; is_logged:
    whether only the plugin's log says so, which does not tell when the plugin tries again.
    """

    def retry() -> dict[str, Any]:
        found: dict[str, Any] = up.rest.expect(200, "GET", f"/api/v1/connectors/{name}/tasks")["results"][0]["retry"]
        return found

    said = eventually(retry, 30, "the task's retry")
    assert re.search(words, said["cause"]), said
    assert since - 5 < said["since_ms"] / 1000 < since + SAID_WITHIN_SECONDS, said
    assert said["attempts"] >= 1, said
    assert said["next_ms"] >= said["since_ms"], said

    def page() -> str:
        return html.unescape(" ".join(up.rest.call("GET", f"/ui/connectors/{name}").text.split()))

    eventually(lambda: re.search(words, page()), 30, page)
    if is_logged:
        assert "no records since" in page()
        assert "The plugin tries again by itself" in page()
        return
    assert "the source cannot be read since" in page()
    assert "attempts so far; the next one:" in page() or "1 attempt so far; the next one:" in page()


def await_healthy(up: Up, name: str, seconds: float = 90) -> None:
    """All places say so."""
    eventually(lambda: set(say(up, name)["places"].values()) == {"HEALTHY"}, seconds, lambda: str(say(up, name)))


@contextmanager
def workers_frozen(up: Up, one: Flow) -> Iterator[None]:
    """Nobody starts them again: for the supervisor they live."""
    with up.frozen([up.pid(f"worker-{number}") for number in range(1, up.workers + 1)]):
        yield


@contextmanager
def broker_killed(up: Up, one: Flow) -> Iterator[None]:
    with processes.frozen([up.lock_holder]):
        os.kill(up.pid("kafka"), signal.SIGKILL)
        yield


@contextmanager
def broker_frozen(up: Up, one: Flow) -> Iterator[None]:
    with processes.frozen([up.pid("kafka")]):
        yield


@contextmanager
def database_locked(up: Up, one: Flow) -> Iterator[None]:
    """As by a process that is frozen within its transaction: everybody reads, and nobody writes."""
    with closing(sqlite3.connect(up.data / "ringfence.sqlite3", timeout=60, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield


@pytest.mark.thorough
@pytest.mark.parametrize(
    "fault", [workers_frozen, broker_killed, broker_frozen, database_locked], ids=lambda fault: fault.__name__
)
def test_what_stops_a_connector_is_said_everywhere(platform: Up, flow: Make, stopwatch: Note, fault: Fault) -> None:
    one = flow()
    eventually(lambda: set(say(platform, one.name)["places"].values()) == {"HEALTHY"}, 30, "it is healthy")
    with fault(platform, one):
        began, said = time.monotonic(), {}

        def is_said() -> bool:
            said.update(say(platform, one.name))
            is_one = len(set(said["places"].values())) == 1
            is_known = said["head"] and not said["healthy"] and not said["all is well"]
            return is_one and said["places"]["page"] == "UNKNOWN" and is_known

        with watched() as promised:
            eventually(is_said, 60, lambda: str(said), pause=0.5)
            took = time.monotonic() - began
        stopwatch("said everywhere", took)
        assert took < promised(SAID_WITHIN_SECONDS)
        assert said["named"]
    one.await_progress(20, timeout=200)
    await_healthy(platform, one.name, 60)


def test_a_projection_that_stands_still_is_said_everywhere(platform: Up, flow: Make, stopwatch: Note) -> None:
    """The worker lives, leads, and reports; only its projector cannot write."""
    one = flow()
    eventually(lambda: set(say(platform, one.name)["places"].values()) == {"HEALTHY"}, 60, "it is healthy")
    with closing(sqlite3.connect(platform.data / "ringfence.sqlite3", timeout=60)) as database:
        database.execute(
            "CREATE TRIGGER held BEFORE UPDATE ON mirror_topicposition BEGIN SELECT RAISE(ABORT, 'held'); END"
        )
        try:
            began, said = time.monotonic(), {}

            def is_said() -> bool:
                said.update(say(platform, one.name))
                is_known = said["head"] and not said["healthy"] and not said["all is well"]
                return set(said["places"].values()) == {"UNKNOWN"} and is_known

            with watched() as promised:
                eventually(is_said, 60, lambda: str(said), pause=0.5)
                took = time.monotonic() - began
            stopwatch("said everywhere", took)
            assert took < promised(SAID_WITHIN_SECONDS)
            health = platform.rest.call("GET", "/health")
            assert health.status_code == 500
            assert "Nothing new is read from Kafka into the database" in health.json()["message"]
            # The cause comes with the worker's next heartbeat.
            cause = "It waits: the database does not write (IntegrityError)"
            eventually(lambda: cause in platform.rest.call("GET", "/health").json()["message"], 30, "the cause is said")
            checks = {each["name"]: each for each in platform.rest.call("GET", "/health/ready").json()["dependencies"]}
            assert not checks["projection"]["ok"]
            assert checks["database"]["ok"]
            assert checks["redis"]["ok"]
        finally:
            database.execute("DROP TRIGGER held")
    one.await_progress(20, timeout=200)
    eventually(lambda: platform.rest.call("GET", "/health").status_code == 200, 60, "it is healthy again", pause=0.5)
    await_healthy(platform, one.name, 60)


def test_a_source_that_is_gone_is_said_everywhere(platform: Up, tmp_path: Path, stopwatch: Note) -> None:
    name, folder = unique("gone"), tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    config = {
        "connector.class": "FilesSource",
        "url": f"file://{folder}",
        "topic": name,
        "format": "text",
        "poll.interval.ms": "500",
    }
    platform.rest.create(name, config)
    try:
        await_healthy(platform, name, 60)
        first = eventually(lambda: data_as_of(platform, name), 30, "the first measure, which is reported each second")
        assert first > time.time() * 1000 - 30_000, "all that the source has is committed"
        eventually(lambda: data_as_of(platform, name) > first, 30, "its data is as of later, though there is no news")
        began = time.monotonic()
        folder.rename(tmp_path / "aside")
        gone_ms = time.time() * 1000
        await_retrying(platform, name, began, stopwatch)

        check_cause(platform, name, "is not a folder|No such file", gone_ms / 1000)
        await_incident(platform, name, ["retrying"])
        eventually(lambda: time.time() * 1000 > gone_ms + 5_000, 10)
        newest = data_as_of(platform, name)
        assert newest < gone_ms + 2_000, "nothing newer is known of a source that cannot be read"
        (tmp_path / "aside").rename(folder)
        await_healthy(platform, name)
        await_incident(platform, name, [])
    finally:
        platform.rest.settled(204, "DELETE", f"/connectors/{name}")


def test_an_api_that_is_gone_is_said_although_its_client_tries_again_by_itself(platform: Up, stopwatch: Note) -> None:
    name, api = unique("api"), OrdersApi()
    api.add(3)
    port = int(api.url.rstrip("/").rpartition(":")[2])
    config = {
        "connector.class": "DltSource",
        "rest.url": f"{api.url}orders",
        "rest.records": "data",
        "rest.key": "id",
        "rest.cursor": "updated_at",
        "topic.prefix": f"{name}.",
        "poll.interval.ms": "500",
    }
    platform.rest.create(name, config)
    try:
        await_healthy(platform, name)
        api.close()
        began = time.monotonic()
        await_retrying(platform, name, began, stopwatch)
        api = OrdersApi(port=port)
        await_healthy(platform, name)
    finally:
        api.close()
        platform.rest.settled(204, "DELETE", f"/connectors/{name}")


def write_numbers(connection: Connection, topic: str, numbers: range) -> None:
    pen = Producer(connection.librdkafka())
    for number in numbers:
        pen.produce(topic, b"%d" % number)
    assert pen.flush(30) == 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_a_kafka_cluster_that_is_gone_is_said_everywhere(
    platform: Up, tmp_path: Path, stopwatch: Note, how: signal.Signals
) -> None:
    name = unique("copy")
    with running_kafka(tmp_path) as source:
        create_topics(Connection(source.bootstrap), [TopicSpec(name)], Deadline.after(30))
        write_numbers(Connection(source.bootstrap), name, range(10))
        config = {
            "connector.class": "KafkaSource",
            "topics": name,
            "source.cluster.bootstrap.servers": source.bootstrap,
            "key.converter": BYTES_CONVERTER,
            "value.converter": BYTES_CONVERTER,
        }
        platform.rest.create(name, config)

        def records() -> int:
            return int(platform.rest.expect(200, "GET", f"/api/v1/connectors/{name}")["records_total"])

        try:
            eventually(lambda: records() == 10, 90, "the records of the other cluster")
            await_healthy(platform, name)
            began, gone = time.monotonic(), time.time()
            os.kill(source.process.pid, how)
            within = NOTICED_WITHIN_SECONDS if how is signal.SIGSTOP else SAID_WITHIN_SECONDS
            await_retrying(platform, name, began, stopwatch, within)
            check_cause(platform, name, "source cluster", gone)
            await_incident(platform, name, ["retrying"])
            if how is signal.SIGSTOP:
                os.kill(source.process.pid, signal.SIGCONT)
            else:
                source.kill()
                source.start()
            write_numbers(Connection(source.bootstrap), name, range(10, 15))
            eventually(lambda: records() == 15, 90, "the records that were written afterwards")
            await_healthy(platform, name)
            await_incident(platform, name, [])
        finally:
            platform.rest.settled(204, "DELETE", f"/connectors/{name}")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_source_of_a_java_connector_that_is_gone_is_said_everywhere(tmp_path: Path, stopwatch: Note) -> None:
    """Debezium on a PostgreSQL that is stopped: it refuses, and then returns nothing for the time of its own pause."""
    name, settings = unique("debezium"), {"CONNECT_PLUGIN_PATH": str(plugin_path(tmp_path, DEBEZIUM))}
    with orders_postgres() as server, Up(tmp_path / "data", settings=settings) as up:
        config = {
            "connector.class": DEBEZIUM_CLASS,
            "tasks.max": "1",
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": "ringfence",
            "database.password": "none",
            "database.dbname": "ringfence",
            "topic.prefix": name,
            "table.include.list": "public.orders",
            "plugin.name": "pgoutput",
            "slot.name": "orders",
        }
        up.rest.create(name, config)

        def records() -> int:
            return int(up.rest.expect(200, "GET", f"/api/v1/connectors/{name}")["records_total"])

        eventually(lambda: records() == SNAPSHOT_ROWS, 180, "the rows of the snapshot")
        await_healthy(up, name)
        began, gone = time.monotonic(), time.time()
        server.stop()
        await_retrying(up, name, began, stopwatch, NOTICED_WITHIN_SECONDS)
        check_cause(up, name, "RetriableException", gone)
        await_incident(up, name, ["retrying"])
        server.start()
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("insert into orders(customer) values ('afterwards')")
        eventually(lambda: records() > SNAPSHOT_ROWS, 120, "the row that was written afterwards")
        await_healthy(up, name)
        await_incident(up, name, [])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_plugin_that_only_logs_that_its_source_is_gone_is_said_everywhere(tmp_path: Path, stopwatch: Note) -> None:
    """MirrorMaker 2 raises nothing while its cluster is away: its client logs each try."""
    name, settings = unique("mirror"), {"CONNECT_PLUGIN_PATH": str(plugin_path(tmp_path, MIRROR))}
    with running_kafka(tmp_path) as source, Up(tmp_path / "data", settings=settings) as up:
        create_topics(Connection(source.bootstrap), [TopicSpec(name)], Deadline.after(30))
        write_numbers(Connection(source.bootstrap), name, range(10))
        login = {f"target.cluster.{key}": value for key, value in up.kafka_login.items()}
        config = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "tasks.max": "1",
            "source.cluster.alias": "other",
            "target.cluster.alias": "here",
            "source.cluster.bootstrap.servers": source.bootstrap,
            "target.cluster.bootstrap.servers": up.bootstrap,
            **login,
            "topics": name,
            "emit.offset-syncs.enabled": "false",
            "replication.factor": "1",
            "key.converter": BYTES_CONVERTER,
            "value.converter": BYTES_CONVERTER,
        }
        up.rest.create(name, config)

        def records() -> int:
            return int(up.rest.expect(200, "GET", f"/api/v1/connectors/{name}")["records_total"])

        eventually(lambda: records() == 10, 180, "the records of the other cluster")
        await_healthy(up, name)
        began, gone = time.monotonic(), time.time()
        source.kill()
        await_retrying(up, name, began, stopwatch, NOTICED_WITHIN_SECONDS)
        check_cause(up, name, "The plugin logs that it cannot connect", gone, is_logged=True)
        await_incident(up, name, ["retrying"])
        source.start()
        write_numbers(Connection(source.bootstrap), name, range(10, 15))
        eventually(lambda: records() == 15, 120, "the records that were written afterwards")
        await_healthy(up, name)
        await_incident(up, name, [])


@pytest.mark.thorough
def test_without_redis_it_delivers_and_all_places_say_so_but_the_head_says_what_is_missing(
    platform: Up, flow: Make
) -> None:
    one = flow()
    with processes.frozen([platform.lock_holder]):
        os.kill(platform.pid("redis"), signal.SIGKILL)
        said: dict[str, Any] = {}

        def is_said() -> bool:
            said.update(say(platform, one.name))
            return bool(said["head"]) and not said["healthy"]

        with watched() as promised:
            began = time.monotonic()
            eventually(is_said, 60, lambda: str(said), pause=0.5)
            assert time.monotonic() - began < promised(SAID_WITHIN_SECONDS)
        assert set(said["places"].values()) == {"HEALTHY"}
        one.await_progress(20)
    one.settle()


@pytest.mark.thorough
@pytest.mark.alone
def test_without_the_database_no_place_says_anything_but_that(platform: Up, flow: Make) -> None:
    one = flow()
    file = platform.data / "ringfence.sqlite3"
    aside = file.with_suffix(".aside")
    aside.mkdir()
    exchange(file, aside)
    paths = ("/ui/", "/ui/connectors", f"/ui/connectors/{one.name}", "/ui/connectors.csv", "/metrics", "/ui/incidents")
    own = ("/api/v1/connectors", f"/api/v1/connectors/{one.name}", f"/connectors/{one.name}/status")
    try:
        statuses = {path: platform.rest.call("GET", path).status_code for path in (*paths, *own)}
        assert statuses == dict.fromkeys((*paths, *own), 503)
        assert platform.rest.call("GET", "/health").status_code >= 500
        one.await_progress(20)
    finally:
        exchange(file, aside)
        aside.rmdir()
    one.settle()


@pytest.mark.thorough
def test_a_topic_that_is_deleted_under_a_connector_is_an_event_and_an_incident(platform: Up, flow: Make) -> None:
    one = flow()
    delete_topics(platform.connection, [one.name], Deadline.after(30))

    def said() -> bool:
        events = platform.rest.expect(200, "GET", f"/api/v1/events?connector={one.name}&limit=500")["results"]
        told = any("was deleted and created again" in each["summary"] for each in events)
        incidents = platform.rest.expect(200, "GET", "/api/v1/alerts/incidents?limit=500")["results"]
        return told and any((each["kind"], each["connector"]) == ("topic-replaced", one.name) for each in incidents)

    eventually(said, 60, "the event and the incident", pause=0.5)
    assert "deleted and created again" in platform.rest.call("GET", f"/ui/connectors/{one.name}/topics").text


def test_what_a_killed_worker_ran_is_not_healthy_before_it_runs_again(platform: Up, flow: Make) -> None:
    one = flow()
    path = f"/api/v1/connectors/{one.name}"

    def task() -> tuple[int, str]:
        row = platform.rest.expect(200, "GET", f"{path}/tasks")["results"][0]
        return int(row["attempt"]), str(row["state"])

    def health() -> str:
        return str(platform.rest.expect(200, "GET", path)["health"])

    eventually(lambda: health() == "HEALTHY", 60, health)
    first, _ = task()
    os.kill(platform.pid(one.worker_of()), signal.SIGKILL)
    seen: list[str] = []
    until = time.monotonic() + 120
    while True:
        now = health()
        attempt, state = task()
        if attempt != first and state == "RUNNING":
            break  # it may run since before `now`
        seen += [now] if [now] != seen[-1:] else []
        assert time.monotonic() < until, seen
    came_back = "HEALTHY" in seen[next((at for at, each in enumerate(seen) if each != "HEALTHY"), len(seen)) :]
    assert not came_back, seen
    assert len(seen) > 1, "somebody has looked in between"
    one.settle()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_full_disk_is_said_everywhere(tmp_path: Path, stopwatch: Note) -> None:
    """Broker, database and Redis stand on it. The broker ends when it can write no more: from then on nothing flows."""
    with new_small_disk(tmp_path / "disk", "400m") as disk:
        up = UpOnASmallDisk(disk / "data")
        up.start()
        one = None
        try:
            one = Flow(up, unique("full")).create()
            eventually(lambda: set(say(up, one.name)["places"].values()) == {"HEALTHY"}, 60, "it is healthy")
            broker = up.pid("kafka")
            ballast = fill(disk)
            eventually(lambda: not process_exists(broker), 180, "the broker's end", pause=0.2)
            began, said = time.monotonic(), {}

            def is_said() -> bool:
                said.update(say(up, one.name))
                is_one = set(said["places"].values()) == {"UNKNOWN"}
                return is_one and said["head"] and said["named"] and not said["healthy"] and not said["all is well"]

            with watched() as promised:
                eventually(is_said, 120, lambda: str(said), pause=0.5)
                took = time.monotonic() - began
            stopwatch("said everywhere", took)
            assert took < promised(SAID_WITHIN_SECONDS)
            ballast.unlink()
            await_healthy(up, one.name, 240)
        finally:
            if one is not None:
                one.reader.close()
            up.end()
