"""A task's process dies, or freezes and wakes again, between its data and its offsets: the worst moment there is.

With transactions nothing is missing and nothing comes twice. Without them the very same check fails: it can see.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.offsets.source_offsets import read_offsets
from ringfence.fencing.task.task_spec import TaskSpec
from tests.guarantees.stage import PARTITION, Script, Stage
from tests.support.broker import Broker
from tests.support.waiting import eventually

COMMIT = 5
"""The commit in which it happens; each carries ten records."""
ALL = 400

APART = {"offset.storage.replication.factor": "1", "offset.storage.partitions": "3"}
"""What the worker says of offsets topics, for connectors that want one of their own."""

FirstAttempt = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def stage(broker: Broker, unique: Callable[[str], str]) -> Iterator[Stage]:
    made = Stage(Connection(broker.bootstrap), unique("zombie"))
    yield made
    made.close()


@pytest.fixture
def first_attempt(stage: Stage) -> Iterator[FirstAttempt]:
    """Starts the first attempt in a process of its own; returns when that has stopped itself."""
    started: list[subprocess.Popen[str]] = []

    def start(kind: str, own_topic: str | None = None) -> "subprocess.Popen[str]":
        config = config_of(stage, own_topic)
        stage.configure(config)
        stage.count()
        settings = {"offset.flush.interval.ms": "60000", "transaction.timeout.ms": "60000", **APART}
        placed = stage.place(1)
        spec = TaskSpec(stage.connection, stage.group, stage.topics, stage.task, placed, "", config, config, settings)
        command = [sys.executable, "-m", "tests.fencing.driver", kind, str(COMMIT), spec.dumps()]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "between data and offsets\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def config_of(stage: Stage, own_topic: str | None) -> dict[str, str]:
    return {"topic": stage.data, **({"offsets.storage.topic": own_topic} if own_topic else {})}


def second_attempt(stage: Stage, own_topic: str | None = None) -> None:
    stage.start(Script(batch=10, limit=ALL), config_of(stage, own_topic), attempt=2, worker=APART)


def woken(process: "subprocess.Popen[str]") -> str:
    """What the frozen process says at its end."""
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate(timeout=60)
    return said.strip()


def test_a_killed_process_leaves_nothing_half_done(stage: Stage, first_attempt: FirstAttempt) -> None:
    first_attempt("transactions").kill()
    second_attempt(stage)
    stage.wait_for(ALL)
    assert stage.exact(ALL) == ALL


def test_a_frozen_process_that_wakes_after_a_take_over_commits_nothing(
    stage: Stage, first_attempt: FirstAttempt
) -> None:
    zombie = first_attempt("transactions")
    second_attempt(stage)
    stage.wait_for(ALL // 2)
    assert woken(zombie) == "superseded"
    stage.wait_for(ALL)
    assert stage.exact(ALL) == ALL


@pytest.mark.parametrize("ends", ["killed", "woken"])
def test_the_same_holds_with_an_offsets_topic_of_its_own(stage: Stage, first_attempt: FirstAttempt, ends: str) -> None:
    own_topic = f"{stage.data}-offsets"
    first = first_attempt("transactions", own_topic)
    if ends == "killed":
        first.kill()
    second_attempt(stage, own_topic)
    stage.wait_for(ALL // 2)
    if ends == "woken":
        assert woken(first) == "superseded"
    stage.wait_for(ALL)
    assert stage.visible() == list(range(ALL))
    offset = read_offsets(stage.connection, own_topic, stage.connector, Deadline.after(60)).offset(PARTITION)
    assert offset == {"next": ALL}


def test_without_transactions_a_killed_process_is_seen_to_duplicate(stage: Stage, first_attempt: FirstAttempt) -> None:
    first_attempt("plain").kill()
    second_attempt(stage)
    eventually(lambda: stage.offset() == ALL, 60, "the second attempt comes to the end")
    with pytest.raises(AssertionError, match="missing or twice"):
        stage.exact(ALL)
    assert len(stage.visible()) == ALL + 10


def test_without_transactions_a_woken_zombie_is_seen_to_spoil_the_offsets(
    stage: Stage, first_attempt: FirstAttempt
) -> None:
    zombie = first_attempt("plain")
    second_attempt(stage)
    eventually(lambda: stage.offset() == ALL, 60, "the second attempt comes to the end")
    woken(zombie)
    with pytest.raises(AssertionError, match="missing or twice"):
        stage.exact(ALL)
    assert stage.offset() == 10 * COMMIT
