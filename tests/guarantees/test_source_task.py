"""One attempt of a source task, on the real broker: exact under every way it can end or be disturbed."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ringfence.connectors.api import RecordBatch, RetriableError
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fenced
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.leader.fence_generation import fence
from ringfence.fencing.leader.fence_targets import AdminAccess
from ringfence.fencing.task import config_view, poll_loop, source_task
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.active_topics import TopicsResetRecord, key_of
from ringfence.fencing.topics.config_records import TargetStateRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import PollRetry, State, StatusTombstone
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.stage import Counting, Listening, Script, Stage
from tests.support.waiting import eventually


def config(stage: Stage, **more: str) -> dict[str, str]:
    return {"topic": stage.data, **{key.replace("_", "."): value for key, value in more.items()}}


def ready(stage: Stage, **more: str) -> dict[str, str]:
    made = config(stage, **more)
    stage.configure(made)
    stage.count()
    return made


def test_records_arrive_once_and_the_offset_agrees_with_them(stage: Stage) -> None:
    attempt = stage.start(Script(limit=5000), ready(stage))
    stage.wait_for(5000)
    assert stage.exact(5000) == 5000
    stage.write(TargetStateRecord(stage.connector, TargetState.STOPPED))
    assert attempt.ended().trace is None


def test_a_task_waits_for_the_count_record_of_its_generation(stage: Stage) -> None:
    made = config(stage)
    stage.configure(made)
    script = Script(limit=100)
    stage.start(script, made)
    log_is_followed = stage.attempts[0].run._view
    eventually(lambda: log_is_followed.verdict.name == "WAIT", 20, "the attempt knows that it has to wait")
    assert script.instances == []
    assert stage.visible() == []
    stage.count()
    stage.wait_for(100)
    stage.exact(100)


def test_a_pause_commits_what_is_open_and_a_resume_goes_on(stage: Stage) -> None:
    script = Script()
    stage.start(script, ready(stage, transaction_boundary="interval", transaction_boundary_interval_ms="200000"))
    eventually(lambda: bool(script.instances) and script.instances[0].polls > 20, 30, "records in an open transaction")
    stage.write(TargetStateRecord(stage.connector, TargetState.PAUSED))
    eventually(lambda: (found := stage.status()) is not None and found.state is State.PAUSED, 30, "PAUSED")
    paused_at = stage.exact(1000)
    stage.write(TargetStateRecord(stage.connector, TargetState.RUNNING))
    eventually(lambda: (found := stage.status()) is not None and found.state is State.RUNNING, 30, "RUNNING")
    stage.write(TargetStateRecord(stage.connector, TargetState.STOPPED))
    stage.attempts[0].ended()
    stage.exact(paused_at)


def test_a_newer_attempt_takes_over_and_the_older_one_ends_quietly(stage: Stage) -> None:
    made = ready(stage)
    older = stage.start(Script(), made)
    stage.wait_for(500)
    newer = stage.start(Script(), made, attempt=2)
    assert older.ended().trace is None
    before = len(stage.visible())
    stage.wait_for(before + 500)
    stage.write(TargetStateRecord(stage.connector, TargetState.STOPPED))
    assert newer.ended().trace is None
    stage.exact(before)
    found = stage.status()
    assert found is not None
    assert found.attempt == 2


def test_a_task_ends_by_itself_after_a_newer_generation_was_written(stage: Stage) -> None:
    made = ready(stage)
    old = stage.start(Script(before_poll=lambda _: time.sleep(0.01)), made)
    stage.wait_for(100)
    stage.configure(made)
    assert old.ended().trace is None
    seen = stage.exact(100)
    new = stage.start(Script(), made)
    stage.count()
    stage.wait_for(seen + 100)
    stage.write(TargetStateRecord(stage.connector, TargetState.STOPPED))
    assert new.ended().trace is None
    stage.exact(seen + 100)


@pytest.mark.parametrize("end", ["stop", "fence"])
def test_a_task_goes_on_while_a_newer_generation_starts_until_it_is_stopped_or_fenced(
    stage: Stage, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_view, "HAND_OVER_SECONDS", 600.0)
    made = ready(stage)
    old = stage.start(Script(before_poll=lambda _: time.sleep(0.01)), made)
    stage.wait_for(100)
    stage.configure(made)
    at_least = len(stage.visible()) + 1000
    stage.wait_for(at_least)
    if end == "stop":
        stage.write(TargetStateRecord(stage.connector, TargetState.STOPPED))
    else:
        fence([old.run._spec.transactional_id], [AdminAccess("the worker's", stage.connection)])
    outcome = old.ended()
    assert (outcome.trace, outcome.reason) == (None, "superseded")
    assert len(old._script.instances) == 1, "it does not start again, which would fence its successor"
    stage.exact(at_least)


def test_an_interval_ends_in_time_also_when_the_source_is_idle(stage: Stage) -> None:
    made = ready(stage, transaction_boundary="interval", transaction_boundary_interval_ms="300")
    stage.start(Script(limit=10), made)
    stage.wait_for(10)
    stage.exact(10)


def test_a_plugins_exception_fails_the_task_with_its_trace_and_nothing_partial(stage: Stage) -> None:
    def explode(task: Counting) -> None:
        if task.polls == 30:
            raise ValueError("the source is on fire")

    made = ready(stage, transaction_boundary="interval", transaction_boundary_interval_ms="200000")
    attempt = stage.start(Script(before_poll=explode), made)
    assert "the source is on fire" in (attempt.ended().trace or "")
    found = stage.status()
    assert found is not None
    assert (found.state, found.ended) == (State.FAILED, True)
    assert "the source is on fire" in (found.trace or "")
    assert stage.visible() == []
    assert stage.offset() == 0


def test_a_retriable_error_is_repeated_in_place(stage: Stage) -> None:
    def stumble(task: Counting) -> None:
        if task.polls in (3, 4, 9):
            raise RetriableError("the source takes a breath")

    script = Script(limit=1000, before_poll=stumble)
    stage.start(script, ready(stage))
    stage.wait_for(1000)
    stage.exact(1000)
    assert len(script.instances) == 1


def test_a_source_that_refuses_is_in_the_status_of_a_running_task(stage: Stage, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.touch()

    def stumble(task: Counting) -> None:
        if task.polls > 3 and away.exists():
            raise RetriableError("the source is away")

    stage.start(Script(limit=1000, before_poll=stumble), ready(stage))

    def refusal() -> PollRetry | None:
        status = stage.status()
        return None if status is None else status.retry

    eventually(lambda: refusal() is not None, 60, "the status says that the source refuses")
    told, status = refusal(), stage.status()
    assert told is not None
    assert status is not None
    assert (status.state, told.cause) == (State.RUNNING, "the source is away")
    assert told.attempts >= 3
    assert told.next_ms > told.since_ms > 0
    away.unlink()
    stage.wait_for(1000)
    eventually(lambda: refusal() is None, 30, "nothing is left of it")
    stage.exact(1000)


def test_an_open_transaction_is_committed_in_time_though_the_source_asks_for_patience(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll_loop, "_BACKOFF", Backoff(600, 600))

    def stumble(task: Counting) -> None:
        if task.polls > 1:
            raise RetriableError("the source is away")

    interval = ready(stage, transaction_boundary="interval", transaction_boundary_interval_ms="1000")
    stage.start(Script(limit=1000, batch=50, before_poll=stumble), interval)
    stage.wait_for(50)


@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_a_plugin_hears_of_every_record_after_its_commit_also_of_the_last(stage: Stage, boundary: str) -> None:
    more = {"transaction_boundary_interval_ms": "200000"} if boundary == "interval" else {}
    script = Script(limit=300)
    attempt = stage.start(script, ready(stage, transaction_boundary=boundary, **more), kind=Listening)
    eventually(lambda: bool(script.instances) and script.instances[0].next >= 300, 30, "all was polled")
    stage.write(TargetStateRecord(stage.connector, TargetState.STOPPED))
    attempt.ended()
    assert script.committed == list(range(300))
    assert script.commits >= 1
    stage.exact(300)


def test_fenced_by_mistake_it_starts_again_from_what_is_committed(stage: Stage) -> None:
    script = Script()
    stage.start(script, ready(stage))
    for round_ in range(3):
        before = len(stage.visible())
        stage.wait_for(before + 300)
        with Fencer(stage.connection) as fencer:
            fencer.fence([f"{stage.group}-numbers-0"], Deadline.after(30))
        eventually(lambda: len(script.instances) > round_ + 1, 30, "a new plugin instance")  # noqa: B023
    stage.wait_for(len(stage.visible()) + 300)
    stage.write(TargetStateRecord(stage.connector, TargetState.STOPPED))
    stage.attempts[0].ended()
    stage.exact(1000)
    assert all(instance.stopped for instance in script.instances)


FENCED, MISSING = "PRODUCER_FENCED", "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize("codes", [[FENCED] * 4 + [MISSING] + [FENCED, MISSING] * 2, [MISSING] * 20])
def test_it_gives_up_only_if_what_cannot_get_better_recurs(
    stage: Stage, codes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two copies of an attempt fence each other for a while, and a topic is missing."""
    monkeypatch.setattr(source_task, "_BACKOFF", Backoff(0.01, 0.02))
    left = list(codes)

    def new_producer(spec: TaskSpec, timeout_ms: int) -> Producer:
        if left:
            code = left.pop(0)
            raise Fenced(f"producing source offsets: {code}", code)
        return Producer(spec.connection, spec.transactional_id, transaction_timeout_ms=timeout_ms)

    attempt = stage.start(Script(limit=10), ready(stage), new_producer=new_producer)
    if FENCED in codes:
        stage.wait_for(10)
        stage.exact(10)
    else:
        assert "It happened 5 times in a row" in (attempt.ended().trace or "")
        assert stage.visible() == []


def test_a_batch_of_ready_bytes_is_refused_where_it_is_not_legal(stage: Stage) -> None:
    class Hasty(Counting):
        def poll(self) -> RecordBatch:
            return RecordBatch({"source": "numbers"}, {"next": 1}, self.topic, [b"0"])

    attempt = stage.start(Script(), ready(stage), kind=Hasty, raw=False)
    assert "raw_batches" in (attempt.ended().trace or "")
    assert stage.visible() == []


def test_a_record_that_is_too_large_fails_with_the_remedy(stage: Stage) -> None:
    class Large(Counting):
        def poll(self) -> RecordBatch:
            return RecordBatch({"source": "numbers"}, {"next": 1}, self.topic, [b"0" * 3_000_000])

    attempt = stage.start(Script(), ready(stage), kind=Large)
    assert attempt.ended(90).trace is not None
    assert stage.visible() == []
    assert stage.offset() == 0


@pytest.mark.thorough
def test_a_broker_that_stops_and_starts_is_waited_for(own_broker: EmbeddedKafka, unique: Callable[[str], str]) -> None:
    stage = Stage(Connection(own_broker.bootstrap), unique("task"))
    attempt = stage.start(Script(before_poll=lambda _task: time.sleep(0.01)), ready(stage))
    stage.wait_for(500)
    own_broker.kill()
    own_broker.start()
    before = len(stage.visible())
    stage.wait_for(before + 500)
    assert attempt.outcome is None
    stage.write(TargetStateRecord(stage.connector, TargetState.STOPPED))
    attempt.ended(90)
    stage.exact(before + 500)
    stage.close()


def test_a_task_tells_its_topics_once_and_again_after_a_reset(stage: Stage) -> None:
    script = Script(limit=100)
    stage.start(script, ready(stage))

    def told() -> set[str]:
        return set(stage.statuses().topics.get(stage.connector, ()))

    eventually(lambda: told() == {stage.data}, 30, "the topic is told", pause=0.1)
    stage.wait_for(100)
    records = Reporter(stage.connection, stage.topics.status, stage.topics.events)
    records.status(StatusTombstone(key_of(stage.connector, stage.data)))
    records.flush(60)
    records.close()
    script.limit += 100
    stage.wait_for(200)
    assert told() == set(), "it was told only once"
    stage.write(TopicsResetRecord(stage.connector, 1))

    def told_again() -> bool:
        script.limit += 20  # the first transactions may come before the task has read of the reset
        return told() == {stage.data}

    eventually(told_again, 30, "the topic is told again", pause=0.1)
    stage.wait_for(script.limit)
    stage.exact(script.limit)


def test_nothing_is_told_of_topics_without_tracking(stage: Stage) -> None:
    attempt = stage.start(Script(limit=100), ready(stage), worker={"topic.tracking.enable": "false"})
    attempt.finish_after(100)
    assert stage.visible()
    assert stage.statuses().topics == {}
