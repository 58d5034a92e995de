"""What waits for the leader's thread comes in order, whoever wakes it in the meantime."""

import threading
import time

from ringfence.engine.leader.leader_jobs import Job, Jobs
from ringfence.fencing.clock import Deadline
from ringfence.requests.refusal import Refusal


def job() -> Job:
    return Job(lambda _: [], Deadline.after(60))


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
