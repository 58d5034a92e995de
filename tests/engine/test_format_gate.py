"""A worker that is too old for the cluster's format stays outside of the group, and leads and runs nothing."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Producer

from ringfence.engine import config_topic
from ringfence.engine.config_topic import admit, await_admission
from ringfence.engine.spark.launcher import Launcher
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import Incarnation, WorkerId
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.leader.term import Term
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import ConfigLog, StatePublisher, Version
from ringfence.fencing.topics.config_records import encode
from ringfence.fencing.topics.config_records.format import FORMAT, OLDEST, FormatRecord
from tests.support.broker import Broker
from tests.support.cluster_states import fold
from tests.support.engine_cluster import Cluster
from tests.support.waiting import eventually


@pytest.fixture
def silent(broker: Broker, unique: Callable[[str], str], environment: Mapping[str, str]) -> Iterator[Cluster]:
    """A worker that nobody has started."""
    made = Cluster(broker, unique, environment)
    yield made
    if made._thread.is_alive():
        made.close()
    else:
        made.plugins.close()
        made.reporter.close()


def write(cluster: Cluster, record: FormatRecord) -> None:
    """As a leader of another version does."""
    key, value = encode(record)
    producer = Producer({"bootstrap.servers": cluster.connection.bootstrap})
    producer.produce(cluster.config.config_topic, value, key)
    assert producer.flush(30) == 0


def format_in(cluster: Cluster) -> FormatRecord:
    with closing(ConfigLog(cluster.connection, cluster.config.config_topic, Deadline.after(30))) as log:
        return log.refresh(Deadline.after(30)).format


def test_the_leader_raises_the_format_with_the_last_worker(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    eventually(lambda: format_in(cluster) == FormatRecord(FORMAT, OLDEST), 30, "the leader has written it", pause=0.2)
    monkeypatch.setattr(config_topic, "FORMAT", FORMAT + 1)
    monkeypatch.setattr(config_topic, "OLDEST", FORMAT + 1)
    cluster.command("ping", on=None)
    assert format_in(cluster).format == FORMAT, "its own record does not say that it knows more"
    cluster.reporter.status(replace(cluster.record, format=FORMAT + 1))
    after = FormatRecord(FORMAT + 1, FORMAT + 1)
    eventually(lambda: format_in(cluster) == after, 30, "all workers know it", pause=0.2)


def test_a_worker_that_is_too_old_is_given_nothing() -> None:
    young, old = (LiveWorker(WorkerId("w"), Incarnation("i"), 4, format=format_) for format_ in (2, 1))
    term = SimpleNamespace(state=fold([FormatRecord(2, 2)]))
    assert admit(cast(Term, term), [old, young]) == [young]


def test_it_waits_outside_of_the_group_and_says_why(silent: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    write(silent, FormatRecord(FORMAT + 1, FORMAT + 1))
    stop = threading.Event()
    waiting = threading.Thread(target=await_admission, args=(silent.config_topic, stop))
    with caplog.at_level(logging.ERROR):
        waiting.start()
        eventually(lambda: "is too old for this cluster" in caplog.text, 30, "it says so")
        assert waiting.is_alive()
        write(silent, FormatRecord(FORMAT + 1, FORMAT))
        waiting.join(30)
    assert not waiting.is_alive(), "an operator has let it in"
    assert caplog.text.count("is too old for this cluster") == 1


def test_nothing_is_read_twice_before_the_first_task_starts(silent: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config topic may be large."""
    write(silent, FormatRecord(FORMAT, OLDEST))
    stop, starts = threading.Event(), []
    real = StatePublisher.take

    def note(self: StatePublisher, start: int, *args: Any, **more: Any) -> Version:
        starts.append(start)
        return real(self, start, *args, **more)

    monkeypatch.setattr(StatePublisher, "take", note)
    await_admission(silent.config_topic, stop)
    state = silent.config_topic.state()
    assert state is not None
    assert state.format == FormatRecord(FORMAT, OLDEST)
    launcher = Launcher(silent.config, silent.record, silent.reporter, silent.config_topic)
    placed: list[ClusterState] = []
    monkeypatch.setattr(launcher, "_start_placed", placed.append)
    running = [
        threading.Thread(target=silent.config_topic.run, args=(stop,)),
        threading.Thread(target=launcher.run, args=(cast(Any, SimpleNamespace()), stop)),
    ]
    for each in running:
        each.start()
    eventually(lambda: placed == [state] and len(starts) > 2, 30, "both follow it")
    stop.set()
    for each in running:
        each.join(30)
        assert not each.is_alive()
    assert starts == [0, *([1] * (len(starts) - 1))]
    assert launcher.failure is None


def test_one_that_stops_waits_no_longer(silent: Cluster) -> None:
    write(silent, FormatRecord(FORMAT + 1, FORMAT + 1))
    stop = threading.Event()
    stop.set()
    waiting = threading.Thread(target=await_admission, args=(silent.config_topic, stop))
    waiting.start()
    waiting.join(60)
    assert not waiting.is_alive()


def test_it_does_not_lead(silent: Cluster) -> None:
    """It has joined the group before the format was raised, and is elected now."""
    write(silent, FormatRecord(FORMAT + 1, FORMAT + 1))
    leader: Any = silent.leader
    silent._thread.start()
    eventually(lambda: "is too old for this cluster" in (leader.failure or ""), 60, "it says so")
    assert not leader.ready.is_set()
