"""Heartbeats between workers: who watches whom, what is written, and what a suspicion does."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import pytest
import redis

from ringfence.engine.peer_heartbeats import Answers, Heartbeats, SuspicionWatch
from ringfence.fencing.ids import Incarnation, WorkerId
from ringfence.fencing.leader.next_placement import Place
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import (
    AnswerRecord,
    LeaderRecord,
    StatusRecord,
    StatusState,
    SuspicionRecord,
    Trust,
    WorkerRecord,
    apply,
)

A, B, C = ((WorkerId(name), Incarnation(f"i-{name}")) for name in "abc")
GROUPS = ["workers", "projection"]


class Cluster:
    """The status topic, Redis, and a clock. It has the interface of a reporter and of the leader."""

    def __init__(self) -> None:
        self.now = 100.0
        self.state = StatusState()
        self.beats: dict[Place, int] = {}
        self.redis_answers = True
        self.events: list[dict[str, object]] = []
        self.written: list[StatusRecord] = []
        for worker, incarnation in (A, B, C):
            self.status(WorkerRecord(worker, incarnation, "enabled", 4, "1", 0))
        self.written.clear()

    def status(self, record: StatusRecord) -> None:
        self.written.append(record)
        self.state = apply(self.state, record)

    def event(self, type_: str, connector: str = "", **fields: object) -> None:
        self.events.append({"type": type_, **fields})

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def exchange(self, own: Place, number: int, others: Sequence[Place]) -> dict[Place, int] | None:
        if not self.redis_answers:
            return None
        self.beats[own] = number
        return {place: self.beats[place] for place in others if place in self.beats}


class Worker:
    """One worker's watch and answers. Several share a cluster."""

    def __init__(self, cluster: Cluster, own: Place) -> None:
        self.cluster = cluster
        self.own = own
        self.ready = threading.Event()
        self.places: Sequence[Place] = ()
        self.removed: list[tuple[tuple[str, ...], Place]] = []
        reporter = cast(Reporter, cluster)
        self.watch = SuspicionWatch(
            own, self, cluster.exchange, reporter, GROUPS,
            lambda groups, place, _why: self.removed.append((tuple(groups), place)), lambda: cluster.now,
        )  # fmt: skip
        self.answers = Answers(own, self.statuses, lambda done, _seconds: done(), reporter)

    def statuses(self) -> StatusState:
        return self.cluster.state

    def lead(self, *places: Place) -> "Worker":
        self.ready.set()
        self.places = places
        self.cluster.state = apply(self.cluster.state, LeaderRecord(*self.own, 1, 0))
        return self

    def turn(self) -> None:
        self.watch.look()
        self.answers.answer_next()


def turns(cluster: Cluster, seconds: float, *workers: Worker, also: Callable[[], None] = lambda: None) -> None:
    for _ in range(int(seconds / 0.25)):
        cluster.now += 0.25
        for worker in workers:
            worker.turn()
        also()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def trust(cluster: Cluster, place: Place) -> Trust | None:
    record = cluster.state.suspicions.get(place[0])
    return None if record is None else record.trust


def test_the_leader_suspects_a_frozen_worker_and_lets_it_come_back(cluster: Cluster) -> None:
    a, b, c = Worker(cluster, A).lead(A, B, C), Worker(cluster, B), Worker(cluster, C)
    turns(cluster, 5, a, b, c)
    assert cluster.written == []
    turns(cluster, 2.5, a, c)
    assert trust(cluster, B) is Trust.SUSPECTED
    assert trust(cluster, C) is None
    assert a.removed == [(("projection",), B)], "the group's session decides about its membership"
    turns(cluster, 1, a, b, c)
    assert trust(cluster, B) is Trust.CALMING
    turns(cluster, 31, a, b, c)
    assert trust(cluster, B) is Trust.TRUSTED
    assert [(each["type"], each["worker"], each["stage"]) for each in cluster.events] == [
        ("worker", "b", "suspected"), ("worker", "b", "back"), ("worker", "b", "trusted")
    ]  # fmt: skip
    record = cluster.state.suspicions[B[0]]
    assert (record.by, record.incarnation, record.times) == ("a", B[1], 1)


def test_a_silent_leader_is_replaced_by_one_of_the_others(cluster: Cluster) -> None:
    a, b, c = Worker(cluster, A).lead(A, B, C), Worker(cluster, B), Worker(cluster, C)
    turns(cluster, 5, a, b, c)
    turns(cluster, 3, b, c)
    assert trust(cluster, A) is Trust.SUSPECTED
    assert (("workers", "projection"), A) in b.removed + c.removed
    assert [each["stage"] for each in cluster.events] == ["suspected"]
    a.ready.clear()
    b.lead(B, C)
    before = len(b.removed + c.removed)
    turns(cluster, 5, b, c)
    assert len(b.removed + c.removed) == before
    b.places = (A, B, C)
    turns(cluster, 1, a, b, c)
    assert trust(cluster, A) is Trust.CALMING, "it is a member again, and the next leader knows what was thought of it"


def test_a_leader_that_runs_is_not_replaced_because_it_was_suspected(cluster: Cluster) -> None:
    a, b = Worker(cluster, A).lead(A, B), Worker(cluster, B)
    turns(cluster, 5, a, b)
    cluster.status(SuspicionRecord(*A, Trust.SUSPECTED, 1, 1))
    turns(cluster, 2, a, b)
    assert b.removed == []
    assert trust(cluster, A) is Trust.CALMING


def test_a_follower_leaves_it_to_the_leader_to_write_that_it_is_back(cluster: Cluster) -> None:
    a, b = Worker(cluster, A).lead(A, B), Worker(cluster, B)
    turns(cluster, 5, a, b)
    cluster.status(SuspicionRecord(*A, Trust.SUSPECTED, 1, 1))
    cluster.written.clear()

    def beat() -> None:
        cluster.beats[A] += 1

    turns(cluster, 5, b, also=beat)
    assert (cluster.written, b.removed) == ([], [])


def test_the_followers_suspect_the_leader_one_after_another() -> None:
    def measure(follower: Place) -> float:
        cluster = Cluster()
        a, one = Worker(cluster, A).lead(A, B, C), Worker(cluster, follower)
        turns(cluster, 5, a, one)
        began = cluster.now
        while trust(cluster, A) is not Trust.SUSPECTED:
            turns(cluster, 0.25, one)
        return cluster.now - began

    assert measure(C) - measure(B) == pytest.approx(0.25, abs=0.01)


def test_who_only_loses_redis_answers_in_kafka(cluster: Cluster) -> None:
    a, b = Worker(cluster, A).lead(A, B), Worker(cluster, B)
    turns(cluster, 5, a, b)
    turns(cluster, 30, a, also=b.answers.answer_next)
    assert trust(cluster, B) is Trust.TRUSTED
    assert cluster.events == []
    assert any(isinstance(record, AnswerRecord) for record in cluster.written)


def test_without_redis_nobody_is_suspected_or_asked(cluster: Cluster) -> None:
    a, b, c = Worker(cluster, A).lead(A, B, C), Worker(cluster, B), Worker(cluster, C)
    turns(cluster, 5, a, b, c)
    cluster.redis_answers = False
    turns(cluster, 30, a)
    turns(cluster, 30, b, c)
    assert cluster.written == []


def test_an_observer_that_stood_still_suspects_nobody(cluster: Cluster) -> None:
    a, b = Worker(cluster, A).lead(A, B), Worker(cluster, B)
    turns(cluster, 5, a, b)
    cluster.now += 60
    turns(cluster, 0.5, a)
    turns(cluster, 5, a, b)
    assert cluster.written == []


def test_a_worker_alone_sends_nothing(cluster: Cluster) -> None:
    cluster.state = StatusState(workers={A[0]: cluster.state.workers[A[0]]})
    a = Worker(cluster, A).lead(A)
    turns(cluster, 5, a)
    assert cluster.beats == {}


def test_another_process_of_a_suspected_worker_is_not_suspected(cluster: Cluster) -> None:
    again = (B[0], Incarnation("another"))
    a, b = Worker(cluster, A).lead(A, again), Worker(cluster, again)
    cluster.status(SuspicionRecord(*B, Trust.SUSPECTED, 3, 9))
    cluster.written.clear()
    turns(cluster, 10, a, b)
    assert cluster.written == []


def test_a_suspicion_that_is_not_in_the_topic_is_written_again_and_reported_once(cluster: Cluster) -> None:
    a, b = Worker(cluster, A).lead(A, B), Worker(cluster, B)
    turns(cluster, 5, a, b)
    turns(cluster, 1.5, a)
    apply_nothing = cluster.state

    def lose() -> None:
        cluster.state = apply_nothing

    turns(cluster, 4, a, also=lose)
    suspicions = [each for each in cluster.written if isinstance(each, SuspicionRecord) and each.trust != "trusted"]
    assert 2 <= len(suspicions) <= 5
    assert {replace(each, since_ms=0) for each in suspicions} == {SuspicionRecord(*B, Trust.SUSPECTED, 1, 1, "a")}
    assert len(cluster.events) == 1


class Pipeline:
    """A pipeline of Redis that answers as it is told, or fails."""

    def __init__(self, answers: list[object] | None) -> None:
        self.answers = answers
        self.commands: list[tuple[object, ...]] = []

    def pipeline(self, transaction: bool) -> "Pipeline":
        assert not transaction
        return self

    def set(self, *arguments: object, ex: int) -> None:
        self.commands.append(("set", *arguments, ex))

    def getrange(self, *arguments: object) -> None:
        self.commands.append(("getrange", *arguments))

    def execute(self) -> list[object]:
        if self.answers is None:
            raise redis.ConnectionError("refused")
        return self.answers


def test_what_is_no_heartbeat_is_none() -> None:
    pipeline = Pipeline([True, b"7", b""])
    beats = Heartbeats("g", cast(redis.Redis, pipeline))
    assert beats.exchange(A, 3, [B, C]) == {B: 7}
    assert pipeline.commands[0] == ("set", "ringfence:heartbeat:g:a@i-a", 3, 60)
    pipeline.answers = [True, b"9" * 19, b"\xff1"]
    assert beats.exchange(A, 4, [B, C]) == {}
    pipeline.answers = None
    assert beats.exchange(A, 5, [B, C]) is None
