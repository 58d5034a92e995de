"""Fencing rounds that take each other's place; what they fence is tested on a broker."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from ringfence.engine.leader.fencing_round_runner import RoundRunner, RunningRound
from ringfence.engine.leader.reconcile_loop import Reconciler
from ringfence.fencing.errors import Retriable
from ringfence.fencing.ids import ConnectorName, Generation
from ringfence.fencing.leader.fence_generation import FenceResult
from ringfence.fencing.leader.fence_targets import AdminAccess
from ringfence.fencing.leader.fencing_round import Round
from ringfence.local.guarded_process import wait_until
from tests.support.waiting import eventually


class Reached(Exception):
    """The round got as far as to its fence."""


class Inline(ThreadPoolExecutor):
    """Its thread is always quicker than the one that starts it."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        result: Future[Any] = Future()
        try:
            result.set_result(call(*args, **more))
        except Reached as error:
            result.set_exception(error)
        return result


def reach(_: Round) -> Sequence[AdminAccess]:
    raise Reached


def test_a_newer_round_is_not_taken_for_the_one_that_it_replaces() -> None:
    runner = RoundRunner(reach, lambda _: [], 0, lambda: None, migration=None, wait_until=wait_until)  # type: ignore[arg-type]
    runner._pool = Inline(1)
    for generation in (30, 34):
        assert runner.start(Round(ConnectorName("c"), Generation(generation), ["id"], 1, {}, {}), lambda _: False)
    (done,) = runner.take_finished()
    assert isinstance(done.result.exception(), Reached)
    runner.close()


def test_a_round_that_somebody_waits_for_does_not_queue_behind_those_of_a_restart() -> None:
    held, reached = threading.Event(), threading.Event()

    def ways(round_: Round) -> Sequence[AdminAccess]:
        if round_.connector == "urgent":
            reached.set()
        assert held.wait(60)
        raise Retriable("enough")

    runner = RoundRunner(ways, lambda _: [], 0, lambda: None, migration=None, wait_until=wait_until)  # type: ignore[arg-type]
    try:
        for number in range(200):
            runner.start(Round(ConnectorName(f"old-{number}"), Generation(1), ["id"], 1, {}, {}), lambda _: False)
        runner.start(Round(ConnectorName("urgent"), Generation(9), ["id"], 1, {}, {}), lambda _: False, urgent=True)
        assert reached.wait(10)
    finally:
        held.set()
        runner.close()


def test_few_fences_are_under_way_at_once_where_nobody_waits_for_them() -> None:
    """Their requests are the same broker's that the leader's own transactions wait for. Another cluster's are not."""
    held, elsewhere = threading.Event(), threading.Event()
    begun: list[str] = []

    def ways(round_: Round) -> Sequence[AdminAccess]:
        if round_.connector == "elsewhere":
            elsewhere.set()
        begun.append(round_.connector)
        assert held.wait(60)
        raise Retriable("enough")

    runner = RoundRunner(ways, lambda _: [], 0, lambda: None, migration=None, wait_until=wait_until)  # type: ignore[arg-type]
    try:
        for number in range(20):
            runner.start(Round(ConnectorName(f"old-{number}"), Generation(1), ["id"], 1, {}, {}), lambda _: False)
        other = {"producer.override.bootstrap.servers": "other:9092"}
        runner.start(Round(ConnectorName("elsewhere"), Generation(1), ["id"], 1, other, {}), lambda _: False)
        assert elsewhere.wait(10), "no fence of the worker's own cluster holds it up"
        eventually(lambda: len(begun) >= 5, 10)
        assert len(begun) == 5, begun
    finally:
        held.set()
        runner.close()


def test_rounds_that_end_together_are_one_transaction() -> None:
    """Each transaction is the leader's thread's, on which a user's start waits as well."""
    result: Future[FenceResult] = Future()
    result.set_result(FenceResult())
    done = [RunningRound(Round(ConnectorName(f"c{n}"), Generation(n), ["id"], 1, {}, {}), result) for n in range(700)]
    written: list[Any] = []
    reported: list[Any] = []
    loop: Any = Reconciler.__new__(Reconciler)
    loop._rounds = SimpleNamespace(take_finished=lambda: done)
    loop._term = SimpleNamespace(write=lambda plan, limit: written.append(plan))
    loop._reporter = SimpleNamespace(event=lambda kind, name, **more: reported.append((name, more["stage"])))
    assert len(list(loop._finish_rounds())) == 2
    assert len(written) == 2  # of at most 500 rounds each
    assert reported == [(f"c{n}", "done") for n in range(700)]
