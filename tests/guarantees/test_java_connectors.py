"""Kafka's own FileStreamSource, in Java, under the kernel: each line once, whoever is killed."""

import json
import random
from pathlib import Path

import pytest

from tests.guarantees.lines import TEXT, LinesJob
from tests.guarantees.stage import Stage
from tests.support.attempts import JavaAttempt
from tests.support.cases import mark_cases
from tests.support.java_plugins import (
    FILE_STREAM,
    FILE_STREAM_CLASS,
    FILE_STREAM_TASK,
    plugin_path,
    runtime_of,
    settings_of,
)

LONG = "org.apache.kafka.connect.converters.LongConverter"
CAST = "org.apache.kafka.connect.transforms.Cast$Value"
TWO_STEPS = {
    "transforms": "first,to",
    "transforms.first.type": CAST,
    "transforms.first.spec": "string",
    "transforms.to.type": CAST,
    "transforms.to.spec": "int64",
}


@pytest.mark.parametrize(
    "case", mark_cases(["transform", "converter", "with-retries"], thorough={"converter", "with-retries"})
)
def test_the_record_that_java_cannot_take_is_named(stage: Stage, tmp_path: Path, case: str) -> None:
    worker = {**settings_of(runtime_of(plugin_path(tmp_path, FILE_STREAM))), "file.roots": str(tmp_path)}
    source = tmp_path / "lines"
    source.write_text("no number\n")
    config = {
        "name": str(stage.connector),
        "connector.class": FILE_STREAM_CLASS,
        "tasks.max": "1",
        "file": str(source),
        "topic": stage.data,
        "key.converter": TEXT,
        "value.converter": LONG,
        "exactly.once.support": "required",
        "errors.retry.timeout": "50" if case == "with-retries" else "0",
    }
    if case != "converter":
        config |= TWO_STEPS
    stage.configure(config)
    stage.count()
    attempt = JavaAttempt(stage, 1, config, FILE_STREAM_TASK, worker)
    try:
        outcome = attempt.outcome(240)
    finally:
        attempt.close()
    by, step = (LONG, "VALUE_CONVERTER") if case == "converter" else (CAST, "TRANSFORMATION")
    assert outcome["reason"] == "failed", outcome["trace"]
    assert f"Failed on a record: stage {step}, class {by}" in outcome["trace"].splitlines()[-1]
    status = stage.status()
    assert status is not None
    found = status.failure
    assert found is not None
    assert (found.stage, found.class_name) == (step, by)
    named = ("", ("value.converter",)) if case == "converter" else ("to", ("transforms.to.spec",))
    assert (found.alias, found.settings) == named
    assert json.loads(found.partition) == {"filename": str(source)}
    assert json.loads(found.offset) == {"position": len("no number\n")}
    assert (found.topic, found.value) == (stage.data, "no number")


def test_each_line_once_while_python_and_java_are_killed(stage: Stage, tmp_path: Path) -> None:
    job = LinesJob(stage, tmp_path)
    try:
        for kill in ("python", "java"):
            running = job.start()
            before = job.visible
            job.write(30_000)
            # In the midst of it: the first transactions are there, and many are to come.
            job.wait_for(before + random.randint(1, 5000))
            if kill == "python":
                running.kill_python()
            else:
                outcome = running.kill_java()
                assert outcome["reason"] == "failed"
                assert "ended by signal 9" in outcome["trace"]
        last = job.start()
        job.complete()
        assert last.stop()["trace"] is None
        job.check()
    finally:
        job.close()
