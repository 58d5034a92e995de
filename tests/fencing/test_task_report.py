"""What a task says of itself carries no secret that its plugin knows of."""

from typing import cast

from ringfence.fencing.clock import SYSTEM_CLOCK
from ringfence.fencing.task.attempt_report import TaskReport
from ringfence.fencing.task.counters import Counters
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import PollRetry, State, TaskStatus
from ringfence.fencing.transactions.client import TransactionalClient
from tests.support.task_reports import Heard, Watch
from tests.support.task_specs import SPEC


def test_traces_and_messages_are_redacted() -> None:
    heard = Heard()
    report = TaskReport(
        SPEC, cast(Reporter, heard), Counters(), SYSTEM_CLOCK, "1.0", lambda text: text.replace("hunter22", "[hidden]")
    )
    report.stage("starting again", "no login with hunter22")
    report.report_failed("Traceback\nValueError: hunter22 is wrong")
    status = heard.statuses[-1]
    assert isinstance(status, TaskStatus)
    assert status.trace == "Traceback\nValueError: [hidden] is wrong"
    assert status.version == "1.0"
    assert "hunter22" not in repr(heard.events)


class _EpochEach:
    """A producer with a new epoch for each transaction."""

    producer_id, epoch, transactions_v2 = 7, 0, True


def test_the_epoch_is_that_of_the_newest_transaction() -> None:
    heard = Heard()
    report = TaskReport(SPEC, cast(Reporter, heard), Counters(), Watch())
    report.progress()
    producer = _EpochEach()
    report.producer(cast(TransactionalClient, producer))
    for _ in range(2):
        producer.epoch += 1
        report.progress()
    names = ("producer_id", "epoch", "transactions_v2")
    assert [[event.get(name) for name in names] for event in heard.events] == [
        [-1, -1, None],
        [7, 1, True],
        [7, 2, True],
    ]


def test_a_long_reading_is_told_every_few_seconds_in_the_status_too() -> None:
    """An attempt that only says that it was placed is given up after a minute."""
    heard, clock = Heard(), Watch()
    report = TaskReport(SPEC, cast(Reporter, heard), Counters(), clock)
    report.stage("reading source offsets")
    for records in range(20):
        report.starting("reading source offsets", f"{records} of 20 records")
        clock.now += 1.0
    statuses = [each for each in heard.statuses if isinstance(each, TaskStatus)]
    assert [each.why for each in statuses] == [
        f"reading source offsets: {records} of 20 records" for records in (5, 10, 15)
    ]
    assert not any(each.ended for each in statuses)
    assert [event["message"] for event in heard.events] == ["", *(f"{n} of 20 records" for n in (5, 10, 15))]


def test_a_source_that_refuses_for_some_seconds_is_told_in_the_status_until_it_answers() -> None:
    heard, clock = Heard(), Watch()
    report = TaskReport(
        SPEC, cast(Reporter, heard), Counters(), clock, None, lambda text: text.replace("hunter22", "[hidden]")
    )
    report.running(State.RUNNING)
    report.retrying("no route to hunter22", 1, 4.0)
    clock.now += 4
    report.source_answers()
    assert [each.retry for each in heard.statuses if isinstance(each, TaskStatus)] == [None], "a hiccup is no state"
    for attempts in range(1, 4):
        report.retrying("no route to hunter22", attempts, 3.0)
        assert report.start_stage is None, "it does not start: its status stays RUNNING"
        clock.now += 3
    report.source_answers()
    _, told, after = [each for each in heard.statuses if isinstance(each, TaskStatus)]
    assert (told.state, told.retry) == (State.RUNNING, PollRetry("no route to [hidden]", 1 - 6000, 3, 1 + 3000))
    assert (after.state, after.retry) == (State.RUNNING, None)
    report.retrying("again", 1, 1.0)
    assert heard.statuses[-1] is after, "the time counts anew"
