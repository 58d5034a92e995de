"""The record path costs less CPU than a bare librdkafka loop in Python: a ratio, so any machine can tell.

Both write the same lines in transactions of 2,000, on one broker, in turns. CPU time is hardly longer on a busy
machine; that of a few lines, mostly the start, is taken off.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import psutil
import pytest

from benchmarks.cases import BATCH
from ringfence.connectors.builtin.file_stream.connector import FileStreamSourceConnector
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.testing.connector_run import ConnectorRun
from tests.support.broker import Broker
from tests.support.names import unique
from tests.support.waiting import eventually

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(400)]

LINES, FEW = 400_000, BATCH
ROUNDS = 3
MOST = 1.3
"""Of the bare loop's CPU time. Measured beside much other work: 0.7 to 1.1."""
_SECONDS = 90.0


def write_lines(path: Path, count: int) -> Path:
    path.write_bytes(b"".join(b"%099d\n" % number for number in range(count)))
    return path


def cpu_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def run_loop(bootstrap: str, path: Path) -> float:
    topic = unique("bare")
    create_topics(Connection(bootstrap), [TopicSpec(topic)], Deadline.after(30))
    command = [sys.executable, "-m", "benchmarks.plain", bootstrap, topic, str(path), "poll"]
    with psutil.Popen(command, env={"PYTHONPATH": ":".join(sys.path)}) as process:
        before = psutil.Process().cpu_times()
        assert process.wait(_SECONDS) == 0
    after = psutil.Process().cpu_times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def run_task(bootstrap: str, path: Path) -> float:
    name = unique("gate")
    config = {
        "file": str(path),
        "topic": f"{name}-lines",
        "batch.size": str(BATCH),
        "value.converter": "ByteArrayConverter",
        "key.converter": "ByteArrayConverter",
    }
    run = ConnectorRun(bootstrap, name, FileStreamSourceConnector, config, str(path.parent))
    try:
        run.start(1)
        size = path.stat().st_size
        eventually(lambda: [offset["position"] for _, offset in run.offsets()] == [size], _SECONDS, run.offsets)
        return cpu_of(psutil.Process(run.running[0].pid))
    finally:
        run.close()


def test_a_task_takes_less_cpu_than_a_bare_loop(broker: Broker, tmp_path: Path) -> None:
    many, few = write_lines(tmp_path / "many.txt", LINES), write_lines(tmp_path / "few.txt", FEW)

    def measure(run: Callable[[str, Path], float]) -> float:
        return run(broker.bootstrap, many) - run(broker.bootstrap, few)

    rounds = [(measure(run_task), measure(run_loop)) for _ in range(ROUNDS)]
    ratio = median(ours / bare for ours, bare in rounds)
    print(f"CPU s for {LINES:,} lines, a task and a bare loop: {rounds}; {ratio:.2f}")
    assert ratio < MOST, rounds
