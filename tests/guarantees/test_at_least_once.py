"""Tasks of workers that are `disabled` or `preparing`, on the real broker: nothing is lost, offsets never run ahead."""

import subprocess
import sys
import threading
from collections.abc import Callable, Mapping

import pytest

from ringfence.connectors.api import SourceRecord
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.plain_producers import PlainProducer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.task import attempt_report
from ringfence.fencing.task.config_view import DesiredState
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.config_records import TargetStateRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.status import State
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.stage import PARTITION, Counting, Listening, Script, Stage
from tests.support.waiting import eventually

DISABLED = {"exactly.once.source.support": "disabled", "offset.flush.timeout.ms": "30000"}
NEVER = {**DISABLED, "offset.flush.interval.ms": "3600000"}
OFTEN = {**DISABLED, "offset.flush.interval.ms": "20"}


def paced(task: Counting) -> None:
    """Some hundred batches a second: enough to be under way, little enough to read again and again."""
    task.context.wait(0.003)


def ready(stage: Stage) -> dict[str, str]:
    config = {"topic": stage.data}
    stage.configure(config)
    stage.count()
    return config


def complete(stage: Stage, at_least: int) -> None:
    """All of 0..n-1 is there, perhaps twice, and the offset is not ahead of it."""
    written = stage.offset()  # first: a task may go on in the meantime
    seen = sorted(set(stage.visible()))
    assert seen == list(range(len(seen))), "missing"
    assert len(seen) >= at_least
    assert written <= len(seen)


def stop(stage: Stage) -> None:
    stage.write(TargetStateRecord(stage.connector, TargetState.STOPPED))


def test_records_arrive_at_once_and_their_offsets_with_the_flush_at_the_end(stage: Stage) -> None:
    attempt = stage.start(Script(limit=5000), ready(stage), worker=NEVER)
    stage.wait_for(5000)
    assert stage.offset() == 0, "no flush was due"
    stop(stage)
    assert attempt.ended().trace is None
    assert stage.exact(5000) == 5000


def test_offsets_are_flushed_in_intervals_also_when_the_source_is_idle(stage: Stage) -> None:
    stage.start(Script(limit=1000), ready(stage), worker={**DISABLED, "offset.flush.interval.ms": "300"})
    stage.wait_for(1000)
    eventually(lambda: stage.offset() == 1000, 30, "the flush after the last record")


def test_a_plugin_hears_of_every_acknowledged_record_in_order_and_of_each_flush(stage: Stage) -> None:
    script = Script(limit=300)
    stage.start(script, ready(stage), kind=Listening, worker=NEVER)
    eventually(lambda: script.committed == list(range(300)), 30, "every record was told")
    assert script.commits == 0
    stop(stage)
    stage.attempts[0].ended()
    assert script.committed == list(range(300))
    assert script.commits == 1


def test_a_pause_flushes_and_a_resume_goes_on(stage: Stage) -> None:
    script = Script(before_poll=paced)
    stage.start(script, ready(stage), worker=NEVER)
    stage.wait_for(500)
    stage.write(TargetStateRecord(stage.connector, TargetState.PAUSED))
    eventually(lambda: (found := stage.status()) is not None and found.state is State.PAUSED, 30, "PAUSED")
    paused_at = stage.exact(500)
    stage.write(TargetStateRecord(stage.connector, TargetState.RUNNING))
    stage.wait_for(paused_at + 100)
    stop(stage)
    stage.attempts[0].ended()
    stage.exact(paused_at + 100)
    assert len(script.instances) == 1


def killed_after(stage: Stage, config: Mapping[str, str], attempt: int, records: int) -> None:
    """An attempt in a process of its own, killed when so many records are there."""
    settings = {**DISABLED, "offset.flush.interval.ms": "100"}
    placed = stage.place(attempt)
    spec = TaskSpec(stage.connection, stage.group, stage.topics, stage.task, placed, "", config, config, settings)
    process = subprocess.Popen([sys.executable, "-m", "tests.guarantees.process", spec.dumps()])
    try:
        stage.wait_for(records)
    finally:
        process.kill()
        process.wait(30)


def test_killed_again_and_again_nothing_is_lost(stage: Stage) -> None:
    config = ready(stage)
    for attempt in (1, 2):
        killed_after(stage, config, attempt, len(stage.visible()) + 300)
        complete(stage, 300)
    assert stage.offset() > 0, "it did not begin again each time"
    end = len(stage.visible()) + 500
    stage.start(Script(limit=end), config, attempt=3, worker=OFTEN)
    eventually(lambda: stage.offset() == end, 60, "the last attempt comes to the end", pause=0.2)
    complete(stage, end)


def test_no_offset_is_written_from_a_record_on_that_the_broker_refuses(stage: Stage) -> None:
    narrow = f"{stage.data}-narrow"
    create_topics(stage.connection, [TopicSpec(narrow, config={"max.message.bytes": "20000"})], Deadline.after(30))

    class Large(Counting):
        def record(self, number: int) -> SourceRecord:
            value = str(number).encode() * (20_000 if number == 1234 else 1)
            # The one large record goes to its own topic: all that follows it is acknowledged.
            return SourceRecord(PARTITION, {"next": number + 1}, narrow if number == 1234 else self.topic, value)

    config = ready(stage)
    attempt = stage.start(Script(limit=3000), config, kind=Large, worker=OFTEN)
    trace = attempt.ended(90).trace or ""
    assert "MSG_SIZE_TOO_LARGE" in trace
    assert "read again" in trace
    assert stage.offset() <= 1234
    found = stage.status()
    assert found is not None
    assert found.state is State.FAILED
    stage.start(Script(limit=3000), config, attempt=2, worker=OFTEN)  # the cause is mended: it is small now
    eventually(lambda: stage.offset() == 3000, 60, "the end")
    complete(stage, 3000)


@pytest.mark.slow
def test_a_broker_that_is_away_is_waited_for_and_nothing_is_lost(
    own_broker: EmbeddedKafka, unique: Callable[[str], str]
) -> None:
    stage = Stage(Connection(own_broker.bootstrap), unique("loose"))
    script = Script(batch=5, before_poll=paced)
    attempt = stage.start(script, ready(stage), worker={**OFTEN, "offset.flush.timeout.ms": "1000"})
    stage.wait_for(300)
    own_broker.kill()
    read = script.instances[0].next
    eventually(lambda: script.instances[0].next > read + 100, 30, "records wait for the broker")
    own_broker.start()
    complete(stage, 300)
    stage.wait_for(script.instances[0].next + 100)
    assert attempt.outcome is None
    stop(stage)
    assert attempt.ended(90).trace is None
    stage.exact(400)
    stage.close()


def test_it_holds_no_transactional_id_and_a_fence_does_not_disturb_it(stage: Stage) -> None:
    script = Script(before_poll=paced)
    stage.start(script, ready(stage), worker=OFTEN)
    stage.wait_for(300)
    with Fencer(stage.connection) as fencer:
        fencer.fence([f"{stage.group}-numbers-0"], Deadline.after(30))
    stage.wait_for(len(stage.visible()) + 300)
    assert len(script.instances) == 1


def test_a_superseded_attempt_sends_nothing_of_what_its_plugin_returns_late(stage: Stage) -> None:
    released = threading.Event()

    def hang(task: Counting) -> None:
        if task.polls == 3:
            released.wait(60)

    script = Script(before_poll=hang)
    attempt = stage.start(script, ready(stage), worker=NEVER)
    stage.wait_for(100)
    stage.place(2)
    view = attempt.run._view
    eventually(lambda: view.verdict is DesiredState.END, 30, "it knows")
    released.set()
    assert attempt.ended().reason == "superseded"
    assert stage.visible() == list(range(100))
    assert stage.offset() == 100


def test_an_attempt_fences_one_before_it_that_was_exactly_once(stage: Stage) -> None:
    """A worker that was `enabled` freezes in a transaction, its task goes on on a `disabled` one."""
    config = ready(stage) | {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "200000"}
    script = Script(limit=200)
    before = stage.start(script, config, worker={"exactly.once.source.support": "enabled"})
    eventually(lambda: bool(script.instances) and script.instances[0].next == 200, 30, "an open transaction")
    before.run._view._take = lambda *_: None  # type: ignore[method-assign]  # it hears of nothing, as if frozen
    stage.start(Script(limit=300), config, attempt=2, worker=OFTEN)
    eventually(lambda: stage.offset() == 300, 30, "the successor does not wait for the transaction to time out")
    before.run.end()
    stage.exact(300)


def test_a_rolling_upgrade_hands_over_without_loss_and_orderly_without_duplicates(stage: Stage) -> None:
    config = ready(stage)
    for attempt, mode in enumerate(("disabled", "preparing", "enabled", "preparing", "disabled"), start=1):
        running = stage.start(
            Script(before_poll=paced), config, attempt, worker={**DISABLED, "exactly.once.source.support": mode}
        )
        stage.wait_for(len(stage.visible()) + 200)
        running.run.end()
        assert running.ended().trace is None
        stage.exact(200)


@pytest.mark.parametrize("mode", ["disabled", "preparing"])
def test_a_start_that_reads_for_long_says_how_far_it_is(
    stage: Stage, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the status, so that nobody takes the attempt for lost."""
    monkeypatch.setattr(attempt_report, "_STARTING_EVERY_S", 0.0)
    offsets = [(b'["other",{"n":%d}]' % number, b'{"at":1}') for number in range(500)]
    PlainProducer(stage.connection).write(stage.topics.offsets, offsets, Deadline.after(30))
    config = ready(stage)
    stage.start(Script(limit=5), config, worker={**DISABLED, "exactly.once.source.support": mode})
    stage.wait_for(5)
    log = TopicLog(stage.connection, stage.topics.status)
    try:
        told = b" ".join(record.value or b"" for record in log.read_to_end(Deadline.after(30)))
    finally:
        log.close()
    assert b"reading source offsets: 500 of 500 records of topic" in told
