"""What a task says of itself carries no secret that its plugin knows of."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ringfence.connectors.api import RecordBatch, RetriableError, SourceRecord
from ringfence.fencing.clock import SYSTEM_CLOCK
from ringfence.fencing.task.attempt_report import Counters, TaskReport
from ringfence.fencing.task.poll_loop import Polling, newest_timestamp
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import KAFKA, PollRetry, State, TaskStatus
from ringfence.fencing.transactions.client import HeldUp, TransactionalClient
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


def test_what_a_start_waits_for_is_not_its_status_once_it_runs() -> None:
    """The watch beside the start asks brokers what delays it. The attempt may start to run at any moment."""
    heard, clock = Heard(), Watch()
    report = TaskReport(SPEC, cast(Reporter, heard), Counters(), clock)
    report.stage("initialising")
    started = threading.Thread(target=report.running, args=(State.RUNNING,))
    event = heard.event

    def start_beside(*args: Any, **fields: Any) -> None:
        if fields.get("stage") == "waiting":
            started.start()
            started.join(0.2)  # it cannot end before the status is written
        event(*args, **fields)

    heard.event = start_beside  # type: ignore[method-assign]
    report.waiting("initialising", "for 5 s")
    started.join(30)
    report.waiting("initialising", "for 35 s")
    assert [cast(TaskStatus, each).state for each in heard.statuses] == [State.UNASSIGNED, State.RUNNING]


def test_a_request_for_other_tasks_changes_no_state() -> None:
    heard = Heard()
    report = TaskReport(SPEC, cast(Reporter, heard), Counters(), Watch())
    report.request_task_reconfiguration()
    report.running(State.PAUSED)
    report.request_task_reconfiguration()
    report.report_failed("Traceback\nValueError: wrong")
    report.request_task_reconfiguration()
    statuses = [cast(TaskStatus, each) for each in heard.statuses]
    assert [each.state for each in statuses] == [State.PAUSED, State.PAUSED, State.FAILED]
    assert all(each.reconfigure_ms for each in statuses)


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


class HeldUpProducer:
    producer_id = epoch = 1
    transactions_v2 = True
    held_up: HeldUp | None = None


def test_a_producer_that_kafka_holds_up_is_told_in_the_status_until_it_goes_on_but_not_after_the_end() -> None:
    heard, clock, producer = Heard(), Watch(), HeldUpProducer()
    report = TaskReport(SPEC, cast(Reporter, heard), Counters(), clock)
    report.producer(cast(TransactionalClient, producer))
    report.running(State.RUNNING)
    producer.held_up = clock.now, "lines-0: it does not exist"
    for _ in range(8):
        clock.now += 1
        report.tick()
    producer.held_up = None
    clock.now += 1
    report.tick()
    _, told, after = [each for each in heard.statuses if isinstance(each, TaskStatus)]
    assert told.retry is not None
    assert (told.state, told.retry.by, told.retry.since_ms) == (State.RUNNING, KAFKA, 1 - 5000)
    assert told.retry.cause == "Kafka takes no records: lines-0: it does not exist"
    assert (after.state, after.retry) == (State.RUNNING, None)
    producer.held_up = clock.now - 60, "lines-0: it does not exist"
    report.report_failed("gave up")
    clock.now += 1
    report.tick()
    assert heard.statuses[-1].state is State.FAILED  # type: ignore[union-attr]


def test_an_idle_task_reports_that_it_is_idle_and_then_every_ten_seconds() -> None:
    heard, clock, counters = Heard(), Watch(), Counters()
    report = TaskReport(SPEC, cast(Reporter, heard), counters, clock)
    report.running(State.RUNNING)
    counters.records = 5
    times = []
    for _ in range(25):
        clock.now += 1
        before = len(heard.events)
        report.tick()
        times += [clock.now] if len(heard.events) > before else []
    first = times[0]
    assert [at - first for at in times] == [0, 1, 11, 21], "once for the records, once for their end, then rarely"


@pytest.mark.parametrize(
    ("batch", "newest"),
    [
        ([SourceRecord({}, {}, "t", "a", None, (), 1000), SourceRecord({}, {}, "t", "b", None, (), 2000)], 2000),
        ([SourceRecord({}, {}, "t", "a")], 0),
        (RecordBatch({}, {}, "t", [b"a", b"b"], timestamps=[1000, 3000]), 3000),
        (RecordBatch({}, {}, "t", [b"a"]), 0),
    ],
)
def test_the_newest_records_time_is_the_sources_as_far_as_it_tells_one(
    batch: list[SourceRecord] | RecordBatch, newest: int
) -> None:
    assert newest_timestamp(batch) == newest


def test_data_never_becomes_older_and_a_gauge_of_the_plugin_says_more() -> None:
    heard, clock, counters = Heard(), Watch(), Counters()
    report = TaskReport(SPEC, cast(Reporter, heard), counters, clock)
    report.running(State.RUNNING)

    def told() -> object:
        report.progress()
        return heard.events[-1]["data_as_of_ms"]

    assert told() == 0
    counters.note_data_as_of(90.0)
    counters.note_data_as_of(80.0)
    assert told() == 90_000
    report.gauges.gauge("behind", "Time by which it is behind", unit="seconds").set(4.0)
    assert told() == (clock.now - 4) * 1000


class _Scripted:
    """A plugin whose source is away for two polls, and then does not answer yet, answers, and has nothing.

    in_part: whether it answers in part before.
    """

    has_answered = True

    def __init__(self, *, in_part: bool = False) -> None:
        self.polls = 0
        self.answers_in_part = in_part

    def poll(self) -> None:
        self.polls += 1
        self.has_answered = self.polls > 3
        if self.polls < 3:
            raise RetriableError("connection refused")


@pytest.mark.parametrize("in_part", [False, True])
def test_a_source_that_has_not_answered_yet_is_still_away(in_part: bool) -> None:
    told: list[str] = []
    report = SimpleNamespace(retrying=lambda *_: told.append("retrying"), source_answers=lambda: told.append("answers"))
    view = SimpleNamespace(wait_while=lambda *_: None)
    runtime: Any = SimpleNamespace(view=view, report=report, counters=Counters(), clock=SYSTEM_CLOCK)
    polling = Polling(runtime, cast(Any, _Scripted(in_part=in_part)))
    had_nothing = []
    for poll in range(4):
        assert polling.poll() is None
        had_nothing.append(polling.had_nothing_at > 0)
        assert (told[-1] == "answers") is (poll > (1 if in_part else 2))
    assert told == ["retrying", "retrying", "answers"]
    assert had_nothing == [False, False, False, True]
