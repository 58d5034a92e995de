"""On the real broker: a command waits for one write of the leader's pass, and the pass reaches its end all the same."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from ringfence.engine.leader import leader_thread, reconcile_loop
from ringfence.engine.leader.commands.command import WriteResult
from ringfence.engine.leader.reconcile_loop import Reconciler
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import ConfigRecord, ConnectorRecord, TargetStateRecord, encode
from ringfence.fencing.topics.connector_state import TargetState
from tests.support.broker import Broker
from tests.support.engine_cluster import Cluster
from tests.support.waiting import eventually

WRITES = 40


@pytest.fixture
def crowded(
    broker: Broker,
    unique: Callable[[str], str],
    environment: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Cluster]:
    """Not started yet. The leader owes each of its stopped connectors a write of its own."""
    monkeypatch.setattr(reconcile_loop, "_SLICE_SECONDS", 0.0)
    monkeypatch.setattr(leader_thread, "_TURN_SECONDS", 0.1)
    made = Cluster(broker, unique, environment)
    producer = Producer(made.connection.librdkafka(linger_ms=50))
    for number in range(WRITES):
        name = ConnectorName(f"other-{number}")
        config = {"name": name, "connector.class": "VerifiableSource", "topic": "others"}
        records: list[ConfigRecord] = [ConnectorRecord(name, config), TargetStateRecord(name, TargetState.STOPPED)]
        for key, value in map(encode, records):
            producer.produce(made.config.config_topic, value, key, 0)
    assert producer.flush(60) == 0
    yield made
    made.close()


def made_of(state: ClusterState) -> int:
    """How many of the connectors have what the leader owes them."""
    return sum(not connector.tasks_stale for connector in state.existing())


def test_a_command_waits_for_one_write_and_the_rest_of_the_pass_follows(
    crowded: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go = threading.Event(), threading.Event()
    make_tasks = Reconciler._make_tasks

    def held(self: Reconciler, connector: object) -> Iterator[None]:
        began.set()
        assert go.wait(60)
        yield from make_tasks(self, connector)  # type: ignore[arg-type]

    monkeypatch.setattr(Reconciler, "_make_tasks", held)
    crowded.start()
    assert began.wait(60)
    seen: Future[int] = Future()

    def look(state: ClusterState) -> list[ConfigRecord]:
        if not seen.done():  # a plan that writes nothing is evaluated again, at the end of the topic
            seen.set_result(made_of(state))
        return []

    crowded.leader.submit(look, Deadline.after(60))
    go.set()
    assert seen.result(60) == 1, "the write that was under way"
    await_all(crowded)


def test_a_steady_stream_of_commands_holds_up_no_part_of_the_pass(crowded: Cluster) -> None:
    crowded.start()
    stop, sent = threading.Event(), [0]

    def send() -> None:
        waiting: list[Future[WriteResult]] = []
        while not stop.is_set():
            waiting.append(crowded.leader.submit(lambda _: [], Deadline.after(60)))
            sent[0] += 1
            if len(waiting) > 100:  # so that something waits at any time
                waiting.pop(0).result(60)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        await_all(crowded)
    finally:
        stop.set()
        sender.join(60)
    assert sent[0] > 100


def test_a_command_does_not_wait_behind_those_of_another_account(crowded: Cluster) -> None:
    crowded.start()
    await_all(crowded)
    held, go, order = threading.Event(), threading.Event(), []

    def hold(_: ClusterState) -> list[ConfigRecord]:
        held.set()
        assert go.wait(60)
        return []

    def plan(account: str) -> Callable[[ClusterState], list[ConfigRecord]]:
        def note(_: ClusterState) -> list[ConfigRecord]:
            order.append(account)
            return []

        return note

    crowded.leader.submit(hold, Deadline.after(60), "many")
    assert held.wait(60)
    others = [crowded.leader.submit(plan("many"), Deadline.after(60), "many") for _ in range(50)]
    crowded.leader.submit(plan("one"), Deadline.after(60), "one")
    go.set()
    for each in others:
        each.result(60)
    assert order.index("one") == 0


def test_a_long_pass_leaves_time_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    loop: Any = Reconciler.__new__(Reconciler)
    loop._pass, loop._next_pass_at = None, float("-inf")
    loop._term, loop._status = SimpleNamespace(state="config"), lambda: "status"
    passes: list[float] = []

    def parts(seconds: float) -> Callable[[], Iterator[None]]:
        def run() -> Iterator[None]:
            passes.append(clock[0])
            clock[0] += seconds
            yield

        return run

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    for seconds, rest in ((0.02, 0.0), (0.1, 0.2), (9.0, 0.5)):
        loop._parts = parts(seconds)
        loop.step([])
        began = clock[0]
        count = len(passes)
        while len(passes) == count:
            clock[0] += 0.01
            loop.step([])
        assert passes[-1] - began == pytest.approx(rest, abs=0.02)
        loop._next_pass_at = float("-inf")


def await_all(cluster: Cluster) -> None:
    """Until the pass has made all of its writes, and has told of them in its last part."""

    def told() -> bool:
        return made_of(cluster.leader.state()) == len(cluster.leader.statuses().connectors) == WRITES

    eventually(told, 120, lambda: f"{made_of(cluster.leader.state())} of {WRITES}")
