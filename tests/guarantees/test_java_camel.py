"""Apache Camel's source connector, from Maven Central: a plugin without manifests, whose source is told of commits.

Its source offsets do not say where to go on, so exactly once is not to be had. What must hold: nothing is lost, and a
file is acknowledged (moved away) only when its record is committed.
"""

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.local.jars import resolve
from tests.guarantees.stage import Stage
from tests.support.attempts import JavaAttempt
from tests.support.camel import TEXT, install
from tests.support.java_plugins import CAMEL, CAMEL_CLASS, CAMEL_TASK, runtime_of, settings_of
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
FILES = 400


def read(stage: Stage) -> Counter[str]:
    """How often a read_committed reader sees each file, by name."""
    log = TopicLog(stage.connection, stage.data)
    try:
        values = [(record.value or b"").decode() for record in log.read_to_end(Deadline.after(60))]
    finally:
        log.close()
    return Counter(Path(value.removesuffix("]")).name for value in values)  # GenericFile[/…/7]


def write_files(folder: Path, numbers: range) -> set[str]:
    """Their names."""
    for number in numbers:
        (folder.parent / "new").write_text("")
        (folder.parent / "new").rename(folder / str(number))
    return {str(number) for number in numbers}


def test_nothing_is_acknowledged_before_it_is_committed(stage: Stage, tmp_path: Path) -> None:
    worker = {
        **settings_of(runtime_of(install(tmp_path / "plugins", resolve("camel", CAMEL)))),
        "file.roots": str(tmp_path),
    }
    source = tmp_path / "in"
    source.mkdir()
    config = {
        "name": str(stage.connector),
        "connector.class": CAMEL_CLASS,
        "tasks.max": "1",
        "topics": stage.data,
        "camel.source.url": f"file:{source}?initialDelay=100&delay=50&maxMessagesPerPoll=20&idempotent=true",
        "camel.source.maxPollDuration": "200",
        "key.converter": TEXT,
        "value.converter": TEXT,
        "transaction.boundary": "poll",
    }
    stage.configure(config)
    stage.count()
    attempts: list[JavaAttempt] = []

    def start() -> JavaAttempt:
        attempts.append(JavaAttempt(stage, len(attempts) + 1, config, CAMEL_TASK, worker))
        return attempts[-1]

    written: set[str] = set()

    def acknowledged() -> set[str]:
        return written - {each.name for each in source.iterdir()}

    def describe() -> str:
        told = f"{len(acknowledged())} of {len(written)} acknowledged, {len(read(stage))} visible"
        return f"{told}\n{attempts[-1].log}"

    def reached(number: int) -> bool:
        if not attempts[-1].running:
            pytest.fail(f"The task has ended: {attempts[-1].outcome()['trace']}")
        return len(acknowledged()) >= number

    try:
        for turn, kill in enumerate(("java", "python")):
            running = start()
            written |= write_files(source, range(turn * FILES, (turn + 1) * FILES))
            eventually(partial(reached, turn * FILES + 30), 60, describe, pause=0.02)
            if kill == "java":
                assert "ended by signal 9" in running.kill_java()["trace"]
            else:
                running.kill_python()
            assert len(acknowledged()) < (turn + 1) * FILES, "the kill came too late"
        last = start()
        eventually(partial(reached, 2 * FILES), 60, describe, pause=0.2)
        assert last.stop()["trace"] is None
        found = read(stage)
        print(f"{len(found)} files, {found.total()} records")
        assert found.keys() == written, "a file was moved away, and is not in Kafka"
        assert found.total() < 3 * FILES, "only what was not acknowledged comes again"
    finally:
        for each in attempts:
            each.close()
