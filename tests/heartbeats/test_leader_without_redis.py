"""A leader that Redis does not reach hands over, where another member reaches it. All parts are real."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest
from django.db import close_old_connections

from ringfence.engine import worker_threads
from ringfence.engine.leader.leader_thread import Leader
from ringfence.engine.worker_threads import RedisWatch, reaches_redis
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.ids import Incarnation, WorkerId
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.topics.status import WorkerRecord
from ringfence.heartbeats.cluster_health import WorkerHeartbeat
from ringfence.heartbeats.cluster_view import probe_redis, read
from ringfence.heartbeats.heartbeat_writer import HealthProbe, HeartbeatWriter
from ringfence.local.valkey import EmbeddedValkey
from tests.support import database
from tests.support.broker import Broker
from tests.support.engine_cluster import Cluster
from tests.support.second_leader import Second
from tests.support.waiting import eventually
from tests.support.wire import Wire

WITHIN = 180.0
"""Seconds; on an idle machine each step takes 5 to 12."""


class Watched:
    """A worker's heartbeat and watch, with a wire of its own to Redis."""

    def __init__(self, leader: Leader, worker: WorkerRecord, redis_port: int) -> None:
        self.leader = leader
        self.worker = worker
        self._wire = Wire(redis_port)
        self._silence = contextlib.ExitStack()
        self.looks = 0
        url = f"redis://127.0.0.1:{self._wire.port}/0"
        name, incarnation = worker.worker, worker.incarnation
        self._beating = HeartbeatWriter(
            name, incarnation, leader.leads_now, HealthProbe(str), HealthProbe(lambda: probe_redis(url))
        )
        self._watch = RedisWatch(leader, incarnation, self._read, Backoff(600, 600))
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=run, args=(self._stop,)) for run in (self._beating.run, self._watch.run)
        ]

    def _read(self) -> list[WorkerHeartbeat]:
        self.looks += 1
        try:
            return read()[0]
        finally:
            close_old_connections()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def cut(self) -> None:
        self._silence.enter_context(self._wire.silent())

    def mend(self) -> None:
        self._silence.close()

    def beat(self) -> WorkerHeartbeat:
        return next(beat for beat in read()[0] if beat.incarnation == self.worker.incarnation)

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        self._wire.close()


@pytest.fixture
def both(
    broker: Broker,
    unique: Callable[[str], str],
    environment: Mapping[str, str],
    valkey: EmbeddedValkey,
) -> Iterator[tuple[Watched, Watched]]:
    """The first one leads."""
    database.migrate()
    database.empty()
    with contextlib.ExitStack() as open_:
        first = Cluster(broker, unique, environment)
        open_.callback(first.close)
        first.start()
        second = Second(first, environment)
        second.start()
        open_.callback(second.close)
        pair = Watched(first.leader, first.record, valkey.port), Watched(second.leader, second.record, valkey.port)
        for watched in pair:
            open_.callback(watched.close)
            watched.start()
        eventually(lambda: len(first.leader.members) == 2 and len(read()[0]) == 2, WITHIN, "both are members, and beat")
        yield pair


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_leader_that_redis_does_not_reach_hands_over_to_one_that_it_does(both: tuple[Watched, Watched]) -> None:
    first, second = both
    first.cut()
    assert second.leader.ready.wait(WITHIN), "it hands over"
    assert not first.leader.leads_now()
    # Now nobody reaches Redis: another leader would be no better.
    second.cut()
    eventually(lambda: second.beat().redis_error and second.beat().leads, WITHIN, "all are cut off")
    seen = second.looks
    eventually(lambda: second.looks > seen + worker_threads._PATIENCE_SECONDS + 5, WITHIN, "it has had its patience")
    assert second.leader.leads_now()
    # The first one is reached again.
    first.mend()
    assert first.leader.ready.wait(WITHIN), "it takes the lead back"
    # The wires change places at once. The first has handed over a moment ago and waits, however the second is.
    first.cut()
    second.mend()
    eventually(lambda: first.beat().redis_error and not second.beat().redis_error, WITHIN, "they have changed places")
    seen = first.looks
    eventually(lambda: first.looks > seen + worker_threads._PATIENCE_SECONDS + 5, WITHIN, "it has had its patience")
    assert first.leader.leads_now()


def test_only_a_live_member_that_reaches_all_it_needs_is_worth_a_resignation() -> None:
    mine = WorkerHeartbeat("w1", "i1", 1.0, 100.0, 0, 1.0, redis_error="refused")
    other = WorkerHeartbeat("w2", "i2", 1.0, 100.0, 0)
    members = [LiveWorker(WorkerId("w1"), Incarnation("i1"), 4), LiveWorker(WorkerId("w2"), Incarnation("i2"), 4)]
    assert reaches_redis([mine, other], members, "i1") == ["w2"]
    for changed in (
        replace(other, age_s=60.0), replace(other, ended=True), replace(other, redis_error="refused"),
        replace(other, kafka_error="timed out"), replace(other, incarnation="i0"),
    ):  # fmt: skip
        assert reaches_redis([mine, changed], members, "i1") == []
    assert reaches_redis([mine, other], members[:1], "i1") == [], "it is no member"
    assert reaches_redis([replace(mine, redis_error=""), other], members, "i1") == []
    assert reaches_redis([other], members, "i1") == [], "nobody tells"
