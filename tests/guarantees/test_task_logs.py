"""What a task logs reaches the events topic, tagged and without secrets; its level follows the config topic."""

import json
import logging
import threading
import time
from collections.abc import Iterator

import pytest

from ringfence.engine.spark.task_process import run_spec
from ringfence.fencing.clock import Deadline
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.topic_log import TopicLog
from tests.guarantees.stage import Stage
from tests.support.waiting import eventually

PASSWORD = "hunter22"
log = logging.getLogger("some.plugin")


@pytest.fixture
def root_as_in_a_task() -> Iterator[None]:
    """Spark's Python processes have no handlers, and the root logger's level is WARNING."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.WARNING)
    yield
    root.setLevel(level)


def test_what_a_task_logs_is_told_at_the_level_of_the_config_topic(stage: Stage, root_as_in_a_task: None) -> None:
    config = {
        "connector.class": "VerifiableSource",
        "name": stage.connector,
        "topic": stage.data,
        "throughput": "50",
        "db.password": PASSWORD,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    task_config = {**config, "id": "0", "task.id": "0"}
    stage.configure(config)
    stage.count()
    placement = stage.place(1)
    task_class = "connectors.builtin.verifiable.task.VerifiableSourceTask"
    worker = {"offset.flush.interval.ms": "60000", "transaction.timeout.ms": "60000"}
    spec = TaskSpec(
        stage.connection, stage.group, stage.topics, stage.task, placement, task_class, config, task_config, worker
    )
    reporter = Reporter(stage.connection, stage.topics.status, stage.topics.events)
    handlers = {*logging.getLogger().handlers}
    thread = threading.Thread(target=lambda: run_spec(spec, reporter, tell_logs=True), daemon=True)
    thread.start()

    def told(text: str) -> list[dict[str, object]]:
        events = TopicLog(stage.connection, stage.topics.events)
        try:
            found = [json.loads(record.value or b"null") for record in events.read_to_end(Deadline.after(30))]
        finally:
            events.close()
        return [each for each in found if each["type"] == "log" and text in each["message"]]

    def says(level: int, text: str) -> bool:
        log.log(level, "%s with %s", text, PASSWORD)
        reporter.flush(5)
        return bool(told(text))

    eventually(lambda: stage.status() is not None, 60, "the task runs", pause=0.2)
    eventually(lambda: says(logging.INFO, "connected"), 60, "a line is told", pause=0.2)
    line = told("connected")[0]
    assert line["message"] == "connected with [hidden]"
    tags = {name: line[name] for name in ("connector", "task", "generation", "attempt", "worker", "level", "logger")}
    assert tags == {
        "connector": stage.connector,
        "task": 0,
        "generation": stage.generation,
        "attempt": 1,
        "worker": "w",
        "level": "INFO",
        "logger": "some.plugin",
    }
    assert not says(logging.DEBUG, "a detail before")
    stage.write(ConnectorLevelRecord(stage.connector, "DEBUG", int(time.time() * 1000) + 600_000))
    eventually(lambda: says(logging.DEBUG, "a detail"), 60, "debug lines are told", pause=0.2)
    stage.write(ConnectorLevelRecord(stage.connector, None))
    eventually(lambda: not log.isEnabledFor(logging.DEBUG), 60, "the level is taken back", pause=0.2)
    stage.configure({**config, "throughput": "1"})  # another generation: the attempt ends
    thread.join(60)
    reporter.close()
    assert not thread.is_alive()
    assert logging.getLogger().level == logging.WARNING
    assert {*logging.getLogger().handlers} == handlers
