"""Two connectors with `java.process=shared` in one JVM: each line once, whoever is killed."""

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence.fencing.kafka.connection import Connection
from tests.guarantees.lines import LinesJob
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.names import unique
from tests.support.shared_jvms import running_jvms, temporary_folder


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with temporary_folder() as made:
        monkeypatch.setenv("TMPDIR", str(made))
        yield made


@pytest.fixture
def jobs(broker: Broker, folder: Path, tmp_path: Path) -> Iterator[list[LinesJob]]:
    stages = [Stage(Connection(broker.bootstrap), unique("shared")) for _ in range(2)]
    made = [LinesJob(stage, tmp_path, java_process="shared") for stage in stages]
    yield made
    for job in made:
        job.close()
    for stage in stages:
        stage.close()


@pytest.mark.thorough
def test_each_line_once_while_tasks_and_their_jvm_are_killed(jobs: list[LinesJob], folder: Path) -> None:
    one, other = jobs
    victim, neighbour = one.start(), other.start()
    for job in jobs:
        job.write(10_000)
        job.wait_for(random.randint(1, 5000))
    (java,) = running_jvms(folder)
    victim.kill()
    before = other.visible
    other.write(5_000)
    other.wait_for(before + 5_000)
    assert neighbour.running
    one.start()
    one.wait_for(one.visible + 1)
    assert running_jvms(folder) == [java], "it finds the JVM of its first attempt"
    for job in jobs:
        job.write(10_000)
        job.wait_for(job.visible + random.randint(1, 5000))
    os.kill(java.pid, signal.SIGKILL)
    outcome = neighbour.outcome()
    assert outcome["reason"] == "failed"
    assert "The Java process that this task shares with others has ended" in outcome["trace"]
    for job in jobs:
        job.write(1_000)  # else nothing may be left for the new JVM
    last = [job.start() for job in jobs]
    for job in jobs:
        job.complete()
    (new,) = running_jvms(folder)
    assert new.pid != java.pid
    for job, attempt in zip(jobs, last, strict=True):
        assert attempt.stop()["trace"] is None
        job.check()
