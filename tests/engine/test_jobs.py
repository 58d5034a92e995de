"""What waits for the leader's thread comes in order and in turn, whoever wakes it in the meantime."""

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ringfence.engine.leader import reconcile_loop
from ringfence.engine.leader.leader_thread import Job, Jobs, carry_out_all
from ringfence.engine.leader.reconcile_loop import Reconciler
from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.requests.request import Refusal


def job(account: str = "") -> Job:
    return Job(lambda _: [], Deadline.after(60), account)


def test_a_job_does_not_wait_behind_those_who_wake_the_leader() -> None:
    """After a start of the platform hundreds of rounds end at once, and each wakes the leader."""
    jobs, given = Jobs(), [job(), job()]
    for _ in range(500):
        jobs.wake()
    for each in given:
        jobs.put(each)
        jobs.wake()
    assert jobs.waiting()
    assert [jobs.next(0), jobs.next(0)] == given
    assert not jobs.waiting()
    assert jobs.next(60) is None, "woken: one pass for all of them"
    began = time.monotonic()
    assert jobs.next(0.05) is None
    assert time.monotonic() - began >= 0.05, "nobody has called since"


def test_accounts_take_turns() -> None:
    jobs, many, one, platform = Jobs(), [job("a") for _ in range(6)], job("b"), job()
    for each in (*many[:3], one, platform, *many[3:]):
        jobs.put(each)
    served = [jobs.next(0) for _ in range(8)]
    assert [each for each in served if each is not None and each.account == "a"] == many, "its own are in order"
    assert served[1:3] == [one, platform]
    assert not jobs.waiting()


def test_who_was_just_served_lets_others_go_first() -> None:
    jobs = Jobs()
    for each in ("a", "a", "a", "b", "b"):
        jobs.put(job(each))
    assert [found.account for _ in range(3) if (found := jobs.next(0))] == ["a", "b", "a"]
    for each in ("a", "c"):
        jobs.put(job(each))
    assert [found.account for _ in range(4) if (found := jobs.next(0))] == ["c", "b", "a", "a"]


def test_who_waits_is_woken() -> None:
    jobs, one = Jobs(), job()
    for call, expected in ((jobs.wake, None), (lambda: jobs.put(one), one)):
        timer = threading.Timer(0.05, call)
        timer.start()
        began = time.monotonic()
        assert jobs.next(60) is expected
        assert time.monotonic() - began < 30
        timer.join()


def test_all_that_wait_are_refused() -> None:
    jobs, given = Jobs(), [job(), job()]
    for each in given:
        jobs.put(each)
    jobs.refuse(lambda: Refusal(409, "no leader"))
    assert [type(each.result.exception(0)) for each in given] == [Refusal, Refusal]
    assert jobs.next(0) is None


class IdleTerm:
    """A term whose writes find nothing to write."""

    state = ClusterState()
    in_doubt = False

    def write(self, *_: object) -> tuple[ClusterState, int]:
        return self.state, -1


class Answer(threading.Event):
    """Notes the leader's waits: for how long, and how many of the jobs were done then."""

    def __init__(self, jobs: list[Job]) -> None:
        super().__init__()
        self.jobs = jobs
        self.waits: list[tuple[float, int]] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append((timeout or 0.0, sum(each.result.done() for each in self.jobs)))
        return super().wait(timeout)


def test_the_leader_lets_its_senders_answer_first_and_not_for_long() -> None:
    """The pass that follows would take the interpreter from them. The second one's sender does not answer."""
    queue, jobs = Jobs(), cast("list[Job]", [])
    answers = [Answer(jobs), Answer(jobs)]
    jobs += [Job(lambda _: [], Deadline.after(60), answered=each) for each in answers]
    queue.put(jobs[1])
    queue.put(job())
    answers[0].set()
    carry_out_all(jobs[0], queue, cast("Any", IdleTerm()), lambda _before, _after: None)
    waits = [seconds for each in answers for seconds, done in each.waits if done == 2]
    assert len(waits) == 2
    assert all(0 < seconds <= 0.02 for seconds in waits)


def test_a_pass_is_due_once_something_has_changed_and_seldom_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1.0]
    monkeypatch.setattr(reconcile_loop, "time", SimpleNamespace(monotonic=lambda: now[0]))
    loop: Any = Reconciler.__new__(Reconciler)
    one, two = (SimpleNamespace(worker=each, incarnation="i") for each in ("one", "two"))
    status, members = ["status"], [[one]]
    loop._term, loop._status = SimpleNamespace(state="config"), lambda: status[-1]
    loop._basis, loop._quiet_until, loop._next_pass_at = (None, None, None), 0.0, 0.0
    loop._pass, loop._parts, loop._unwritten = None, lambda: iter([None, None]), {}

    def do_pass() -> bool:
        """Whether it was due."""
        if is_due := loop.is_due(members[-1]):
            loop.step(members[-1])
        return bool(is_due)

    def change_config() -> None:
        loop._term.state = "config, changed"

    assert [do_pass(), do_pass()] == [True, False]
    for change in (change_config, lambda: status.append("changed"), lambda: members.append([one, two])):
        change()
        assert [do_pass(), do_pass()] == [True, False]
    members.append([one, two])
    assert not do_pass(), "equal ones"
    loop._pass = iter([None])
    assert [do_pass(), do_pass()] == [True, False], "the last one has stopped for a command"
    now[0] += 0.2
    assert not do_pass()
    now[0] += 0.2
    assert [do_pass(), do_pass()] == [True, False], "what is due by time"
    loop._unwritten["c"] = "its tasks"
    assert [do_pass(), do_pass()] == [True, True], "slice by slice"
    loop._unwritten.clear()
    loop._next_pass_at = now[0] + 0.1
    change_config()
    loop._term.state = "config, changed again"
    assert [do_pass(), do_pass()] == [True, True], "it rests, and nothing is forgotten"
    now[0] += 0.2
    assert [do_pass(), do_pass()] == [True, False]
