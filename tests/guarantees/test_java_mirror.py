"""Kafka's own MirrorSourceConnector: each record once through kills, true offset syncs, and new topics found."""

import struct
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ringfence.connectors.java import processes, runtime
from ringfence.connectors.java.connector import java_connector_class
from ringfence.connectors.java.discovery import find_plugins
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.topics.topic_log import LogRecord, TopicLog
from tests.connectors.fakes import FakeOffsets
from tests.guarantees.stage import Stage
from tests.support.attempts import JavaAttempt
from tests.support.java_plugins import MIRROR, plugin_path, runtime_of, settings_of
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
TASK = "org.apache.kafka.connect.mirror.MirrorSourceTask"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
COUNT = 20_000


class Context:
    trial = False

    def __init__(self) -> None:
        self.offset_reader = FakeOffsets()
        self.asked = threading.Event()

    def request_task_reconfiguration(self) -> None:
        self.asked.set()

    def raise_error(self, error: Exception) -> None:
        raise AssertionError("not expected") from error

    def why_closed(self, topic: str) -> str:
        return ""

    def warn(self, text: str) -> None:
        pass


def config_of(stage: Stage) -> dict[str, str]:
    return {
        "name": str(stage.connector),
        "connector.class": CLASS,
        "tasks.max": "1",
        "source.cluster.alias": "here",
        "target.cluster.alias": stage.group,
        "source.cluster.bootstrap.servers": stage.connection.bootstrap,
        "target.cluster.bootstrap.servers": stage.connection.bootstrap,
        "topics": f"{stage.group}-in.*",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.lag.max": "0",
        "refresh.topics.interval.seconds": "2",
        "sync.topic.acls.enabled": "false",
        "sync.topic.configs.enabled": "false",
        "source.consumer.isolation.level": "read_committed",
        "source.consumer.max.poll.records": "200",
        "key.converter": BYTES,
        "value.converter": BYTES,
        "exactly.once.support": "required",
    }


def fill(stage: Stage, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": stage.connection.bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % 2)
        producer.poll(0)
    assert producer.flush(60) == 0


def read(stage: Stage, topic: str) -> list[LogRecord]:
    log = TopicLog(stage.connection, topic)
    try:
        return list(log.read_to_end(Deadline.after(60)))
    finally:
        log.close()


def test_a_mirror_with_offset_syncs(stage: Stage, tmp_path: Path) -> None:
    folder = plugin_path(tmp_path, MIRROR)
    java = runtime_of(folder)
    origin, copy = f"{stage.group}-in", f"here.{stage.group}-in"
    create_topics(stage.connection, [TopicSpec(origin, 2)], Deadline.after(30))
    fill(stage, origin, COUNT)
    config = config_of(stage)
    before = list(runtime._current)
    runtime.declare(java)
    attempts: list[JavaAttempt] = []
    try:
        (plugin,) = [each for each in find_plugins([str(folder)]) if each.class_name == CLASS]
        connector = java_connector_class(plugin)()
        context = Context()
        connector.context = context
        connector.start(config)
        (task,) = connector.task_configs(1)
        stage.configure({**config, **task})
        stage.count()
        for number in (1, 2, 3):
            attempts.append(JavaAttempt(stage, number, {**config, **task}, TASK, settings_of(java)))
            enough = min(COUNT, number * 5000)
            eventually(lambda: len(read(stage, copy)) >= enough, 120, lambda: attempts[-1].log, pause=0.1)  # noqa: B023
            if number == 1:
                assert "ended by signal 9" in attempts[-1].kill_java()["trace"]
            elif number == 2:
                attempts[-1].kill_python()
        eventually(lambda: len(read(stage, copy)) >= COUNT, 120, lambda: attempts[-1].log, pause=0.5)
        copied = read(stage, copy)
        assert sorted(int(record.value or b"") for record in copied) == list(range(COUNT)), "missing, or there twice"
        origins = {(record.partition, record.offset): record.value for record in read(stage, origin)}
        copies = {(record.partition, record.offset): record.value for record in copied}
        syncs = f"mm2-offset-syncs.{stage.group}.internal"
        eventually(lambda: len(read(stage, syncs)) > 0, 60, lambda: attempts[-1].log, pause=0.5)
        for record in read(stage, syncs):
            upstream, downstream = struct.unpack(">qq", record.value or b"")
            (partition,) = struct.unpack(">i", (record.key or b"")[-4:])
            assert copies[partition, downstream] == origins[partition, upstream]
        create_topics(stage.connection, [TopicSpec(f"{origin}-more", 1)], Deadline.after(30))
        assert context.asked.wait(60), "a new topic asks for new task configurations"
        assert f"{origin}-more" in str(connector.task_configs(1))
        connector.stop()
        assert attempts[-1].stop()["trace"] is None
    finally:
        processes.close()
        runtime._current[:] = before
        for each in attempts:
            each.close()
