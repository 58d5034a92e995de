"""A task that keeps up with its source commits on its own thread, on the real broker."""

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from ringfence.connectors.api import RecordBatch, SourceRecord
from ringfence.fencing.clock import Deadline
from ringfence.fencing.task import poll_loop
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.transactions.producer import Producer
from tests.guarantees.stage import PARTITION, Counting, Listening, Script, Stage
from tests.support.waiting import eventually

WAIT_S = 0.005


class KeepingUp(Counting):
    """Waits for each batch, whose records are new."""

    age_s = 0.0

    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        self.context.wait(WAIT_S)
        return super().poll()

    def record(self, number: int) -> SourceRecord:
        timestamp = int((time.time() - self.age_s) * 1000)
        return SourceRecord(PARTITION, {"next": number + 1}, self.topic, str(number).encode(), timestamp=timestamp)


class Behind(KeepingUp):
    """Reads what is a minute old."""

    age_s = 60.0


class Watched(Producer):
    """Notes the thread of each commit, and how it was tried."""

    seconds: float | None = None
    """So long a commit is waited for, instead of what the task says."""

    def __init__(self, spec: TaskSpec, timeout_ms: int) -> None:
        super().__init__(spec.connection, spec.transactional_id, transaction_timeout_ms=timeout_ms)
        self.at_once: list[str] = []
        self.on_the_other: list[str] = []

    def try_commit(self, seconds: float) -> bool:
        self.at_once.append(threading.current_thread().name)
        return super().try_commit(seconds if self.seconds is None else self.seconds)

    def commit(self, deadline: Deadline) -> None:
        self.on_the_other.append(threading.current_thread().name)
        super().commit(deadline)


class Impatient(Watched):
    """No commit is as quick as that."""

    seconds = 0.0


class Producers(list[Watched]):
    """Those of an attempt."""

    def __init__(self, kind: type[Watched] = Watched) -> None:
        super().__init__()
        self._kind = kind

    def new(self, spec: TaskSpec, timeout_ms: int) -> Watched:
        self.append(self._kind(spec, timeout_ms))
        return self[-1]


def ready(stage: Stage) -> dict[str, str]:
    made = {"topic": stage.data, "transaction.boundary": "poll"}
    stage.configure(made)
    stage.count()
    return made


def test_a_task_that_keeps_up_commits_on_its_own_thread(stage: Stage) -> None:
    producers, script = Producers(), Script(limit=300, batch=3)
    stage.start(script, ready(stage), kind=KeepingUp, new_producer=producers.new)
    stage.wait_for(300)
    stage.stop()
    assert stage.exact(300) == 300
    assert {len(transaction) for transaction in stage.transactions()} == {3}
    (producer,) = producers
    # On a busy machine, some take longer than a task waits for them, or the records grow old before.
    assert len(producer.at_once) > 50
    assert not any(name.startswith("commit") for name in producer.at_once)
    assert len(producer.on_the_other) < 50


@pytest.mark.parametrize(
    ("kind", "batch"), [(Counting, 3), (Behind, 3), (KeepingUp, poll_loop._FEW + 1)], ids=["busy", "behind", "many"]
)
def test_other_tasks_read_beside_their_commits(stage: Stage, kind: type[Counting], batch: int) -> None:
    producers, script = Producers(), Script(limit=10 * batch, batch=batch)
    stage.start(script, ready(stage), kind=kind, new_producer=producers.new)
    stage.wait_for(10 * batch)
    stage.stop()
    assert stage.exact(10 * batch) == 10 * batch
    (producer,) = producers
    assert producer.at_once == []
    assert len(producer.on_the_other) == 10
    assert all(name.startswith("commit") for name in producer.on_the_other)


def test_a_slow_commit_goes_on_beside_the_task(stage: Stage) -> None:
    """Each is begun on the task's thread, and ended by the other one, once."""
    producers, script = Producers(Impatient), Script(limit=60, batch=3)
    stage.start(script, ready(stage), kind=KeepingUp, new_producer=producers.new)
    stage.wait_for(60)
    stage.stop()
    assert stage.exact(60) == 60
    assert {len(transaction) for transaction in stage.transactions()} == {3}
    (producer,) = producers
    assert len(producer.on_the_other) == 20
    assert producer.at_once, "the first one may be older than what counts as new"


def test_the_plugin_hears_of_commits_at_once(stage: Stage) -> None:
    class Both(KeepingUp, Listening):
        pass

    script = Script(limit=30, batch=3)
    stage.start(script, ready(stage), kind=Both)
    stage.wait_for(30)
    stage.stop()
    assert script.committed == list(range(30))
    assert script.commits == 10


@pytest.mark.parametrize("kind", [Watched, Impatient])
def test_a_fenced_commit_at_once_makes_the_task_start_again(stage: Stage, kind: type[Watched]) -> None:
    producers = Producers(kind)
    stage.start(Script(), ready(stage), kind=KeepingUp, new_producer=producers.new)
    stage.wait_for(30)
    other = Producer(stage.connection, producers[0].transactional_id)
    try:
        other.init(Deadline.after(30))
        eventually(lambda: len(producers) > 1, 60, "it starts again")
    finally:
        other.close()
    stage.wait_for(len(stage.visible()) + 30)
    stage.stop()
    stage.exact(60)


def test_a_stop_ends_a_task_whose_commit_has_no_answer(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task waits for it no longer than for a moment, and its stop no longer than it may."""
    hangs = threading.Event()

    class Silent(Watched):
        def _run(self, done: Callable[[], bool], deadline: Deadline) -> None:
            if hangs.is_set() and self.machine.phase.name == "COMMITTING":
                time.sleep(min(deadline.remaining, 0.5))
                return
            super()._run(done, deadline)

    producers = Producers(Silent)
    attempt = stage.start(Script(), ready(stage), kind=KeepingUp, new_producer=producers.new)
    stage.wait_for(30)
    hangs.set()
    eventually(lambda: len(producers) > 1 or bool(producers[0].on_the_other), 30, "the other thread waits for it")
    attempt.run.end()
    attempt.ended(30)
    hangs.clear()
    visible = stage.visible()
    assert visible == list(range(len(visible)))
