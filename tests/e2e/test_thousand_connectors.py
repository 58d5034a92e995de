"""A platform with 1,000 connectors and a long offsets topic: leaders, starts and lists stay within bounds.

The limits are several times what a machine under load took: they catch a cost that grows with the square of the
connectors, and not a slow machine. `stopwatch` prints what was measured.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from playwright.sync_api import sync_playwright

from benchmarks.starts import fill
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, Generation, TaskId
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import fold
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
    encode,
)
from ringfence.fencing.topics.connector_state import TargetState
from tests.e2e.browser import chromium as program
from tests.e2e.browser.visitor import Visitor
from tests.e2e.flow import OFFSETS, Flow
from tests.e2e.topics import CONFIGS, await_other_leader, leader, read
from tests.e2e.up import Up
from tests.support.broker import new_kafka
from tests.support.names import unique
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
Note = Callable[[str, float], None]
CONNECTORS, OFFSET_RECORDS = 1_000, 300_000
READY_SECONDS = 180.0
ROUNDS_SECONDS = 180.0
START_BESIDE_ROUNDS_SECONDS = 150.0
START_SECONDS = 30.0
ACT_SECONDS = 30.0
LIST_SECONDS = 15.0
PROJECTION_SECONDS = 150.0
HANDOVER_SECONDS = 90.0
PAGE_SECONDS = 0.25
"""On a quiet machine."""
MOST_SHIFT = 0.005
PAGES = (
    "/ui/",
    "/ui/connectors",
    "/ui/connectors?health=attention",
    "/ui/connectors/{name}",
    "/ui/connectors/{name}/history",
    "/ui/connectors/{name}/timeline",
    "/ui/topics",
    "/ui/incidents",
    "/ui/workers",
)


def history(name: ConnectorName, offset: int, *, of_kafka_connect: bool) -> Sequence[ConfigRecord]:
    """A connector with one task that was stopped, from `offset` on.

    Kafka Connect's task count records name no generation, so the leader owes each of those connectors a fencing round.
    """
    config = {"name": name, "connector.class": "VerifiableSource", "tasks.max": "1", "topic": "others"}
    ran: list[ConfigRecord] = [ConnectorRecord(name, config), TaskRecord(TaskId(name, 0), config)]
    commit = Generation(offset + len(ran))
    ran += [CommitRecord(name, 1), TaskCountRecord(name, 1, None if of_kafka_connect else commit)]
    ran += [TargetStateRecord(name, TargetState.STOPPED), CommitRecord(name, 0)]
    last = Generation(offset + len(ran) - 1)
    return ran if of_kafka_connect else [*ran, TaskCountRecord(name, 0, last)]


def write_connectors(bootstrap: str) -> None:
    """Every second one is as Kafka Connect left it."""
    connection = Connection(bootstrap)
    create_topics(connection, [TopicSpec(CONFIGS, config={"cleanup.policy": "compact"})], Deadline.after(30))
    producer, offset = Producer(connection.librdkafka(linger_ms=50)), 0
    for number in range(CONNECTORS):
        for record in history(ConnectorName(f"other-{number}"), offset, of_kafka_connect=number % 2 == 1):
            key, value = encode(record)
            producer.produce(CONFIGS, value, key, 0)
            offset += 1
    assert producer.flush(60) == 0


def state(up: Up) -> ClusterState:
    """What the config topic says now."""
    return fold(ClusterState(), read(up, CONFIGS), CONFIGS)


def slowness() -> float:
    """By how much longer everything takes while others work on this machine, too."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def measure_pages(up: Up, name: str, stopwatch: Note) -> None:
    """Each page is quick, and with a Chromium, nothing on it moves while it is loaded."""
    for address in PAGES:
        times = []
        for _ in range(5):
            began = time.monotonic()
            answer = up.rest.call("GET", address.format(name=name), headers={"Accept": "text/html"})
            times.append(time.monotonic() - began)
            assert answer.status_code == 200, answer.text
        stopwatch(f"GET {address}, the best of five", min(times))
        assert min(times) < PAGE_SECONDS * slowness(), f"{address}: {times}"
    if (path := program.find()) is None:
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(program.ARGUMENTS))
        visitor = Visitor(browser, up.rest.url)
        for address in PAGES:
            visitor.go(address.format(name=name)).wait_for_load_state("load")
            shift = visitor.shift()
            stopwatch(f"layout shift of {address}", shift)
            assert shift <= MOST_SHIFT, address
        visitor.close()
        browser.close()


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Up]:
    """Not started yet; two workers."""
    kafka = new_kafka(tmp_path)
    kafka.start()
    settings = {f"CONNECT_{key}_STORAGE_REPLICATION_FACTOR": "1" for key in ("CONFIG", "OFFSET", "STATUS", "EVENTS")}
    up = Up(tmp_path / "data", workers=2, settings={"CONNECT_BOOTSTRAP_SERVERS": kafka.bootstrap, **settings})
    up.kafka_port = int(kafka.bootstrap.rpartition(":")[2])
    try:
        write_connectors(kafka.bootstrap)
        fill(kafka.bootstrap, OFFSETS, OFFSET_RECORDS)
        yield up
    finally:
        up.end()
        kafka.kill()


def test_stays_within_bounds(crowded: Up, stopwatch: Note) -> None:
    up = crowded

    def note(what: str, began: float, limit: float) -> None:
        took = time.monotonic() - began
        stopwatch(what, took)
        assert took < limit, f"{what}: {took:.1f} s"

    def listed(path: str, limit: float = LIST_SECONDS) -> str:
        began = time.monotonic()
        answer = up.rest.call("GET", path)
        note(f"GET {path}", began, limit)
        assert answer.status_code == 200, answer.text
        return answer.text

    def is_projected() -> bool:
        rows = up.rest.call("GET", "/connectors?expand=status").text
        return rows.count('"STOPPED"') == CONNECTORS and one.name in rows

    began = time.monotonic()
    up.start()
    eventually(lambda: up.rest.call("GET", "/health").status_code == 200, READY_SECONDS, "a leader", pause=0.2)
    note("up, with a leader", began, READY_SECONDS)
    began = time.monotonic()
    one = Flow(up, unique("new"), throughput=100)
    try:
        one.create()
        note("a new connector beside the rounds that are due, until records came", began, START_BESIDE_ROUNDS_SECONDS)
        eventually(
            lambda: not any(each.round_pending for each in state(up).existing()),
            ROUNDS_SECONDS,
            lambda: f"{sum(each.round_pending for each in state(up).existing())} rounds are due",
            pause=1.0,
        )
        note("the fencing rounds that were due", began, ROUNDS_SECONDS)
        began = time.monotonic()
        eventually(is_projected, PROJECTION_SECONDS, "all connectors in the rows", pause=0.5)
        note("all of them in the rows", began, PROJECTION_SECONDS)
        shown = listed("/connectors?expand=status")
        assert shown.count('"STOPPED"') == CONNECTORS, shown[:2000]
        assert one.name in shown
        assert "other-" in listed("/ui/connectors")
        measure_pages(up, one.name, stopwatch)
        later, began = Flow(up, unique("later"), throughput=100), time.monotonic()
        try:
            later.create()
            note("a new connector, until records came", began, START_SECONDS)
            later.settle()
        finally:
            later.close()
        began = time.monotonic()
        up.rest.settled(202, "PUT", f"/connectors/{one.name}/pause")
        one.await_states("PAUSED")
        note("pause", began, ACT_SECONDS)
        one.check()
        began = time.monotonic()
        up.rest.settled(202, "PUT", f"/connectors/{one.name}/resume")
        one.await_states("RUNNING")
        one.await_progress()
        note("resume, until records came", began, ACT_SECONDS)
        old, began = leader(up), time.monotonic()
        os.kill(up.pid(old.worker), signal.SIGKILL)
        await_other_leader(up, old, HANDOVER_SECONDS)
        note("another leader after the kill", began, HANDOVER_SECONDS)
        one.await_progress(timeout=HANDOVER_SECONDS)
        note("records after the kill", began, HANDOVER_SECONDS)
        one.settle()
        known = list(state(up).existing())
        assert len(known) == CONNECTORS + 1
        assert not any(each.round_pending for each in known)
    finally:
        one.reader.close()
