"""A worker whose memory is used up starts no more tasks, says why, and starts them once there is memory again."""

import threading
from collections.abc import Callable

from ringfence.engine.config_topic import ConfigTopic
from ringfence.engine.spark.driver import SparkHost
from ringfence.engine.spark.launcher import Launcher
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import State, WorkerRecord
from ringfence.task_slots import TASK_SLOTS
from ringfence.worker_config import WorkerConfig
from tests.guarantees.stage import Stage
from tests.support.broker import Broker
from tests.support.waiting import eventually

MIB = 1 << 20


def test_a_task_waits_for_memory_and_says_so(broker: Broker, unique: Callable[[str], str]) -> None:
    stage = Stage(Connection(broker.bootstrap), unique("short"))
    converter = "org.apache.kafka.connect.storage.StringConverter"
    config = {
        "name": "numbers",
        "connector.class": "VerifiableSource",
        "topic": stage.data,
        "throughput": "10",
        "id": "0",
        "key.converter": converter,
        "value.converter": converter,
    }
    stage.write_generation(
        config, [{**config, "task.class": "ringfence.connectors.builtin.verifiable.task.VerifiableSourceTask"}]
    )
    stage.count()
    placement = stage.place(1)
    worker = WorkerConfig.of_settings(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": stage.group,
            "config.storage.topic": stage.topics.config,
            "offset.storage.topic": stage.topics.offsets,
            "status.storage.topic": stage.topics.status,
            "events.storage.topic": stage.topics.events,
            "exactly.once.source.support": "enabled",
        }
    )
    record = WorkerRecord(placement.worker, placement.incarnation, "enabled", 4, "0", 0)
    reporter = Reporter(stage.connection, stage.topics.status, stage.topics.events)
    free, stop = [100 * MIB], threading.Event()
    config_topic = ConfigTopic(worker, stage.connection)
    launcher = Launcher(worker, record, reporter, config_topic, free=lambda: free[0])
    spark = SparkHost(2)
    following = threading.Thread(target=config_topic.run, args=(stop,))
    thread = threading.Thread(target=launcher.run, args=(spark, stop))
    following.start()
    thread.start()
    try:
        eventually(lambda: stage.status() is not None, 60, "a status")
        status = stage.status()
        assert status is not None
        assert (status.state, status.worker) == (State.UNASSIGNED, placement.worker)
        assert "100 MiB are free" in status.why
        assert TASK_SLOTS in status.why, "the remedy"

        free[0] = 1024 * MIB

        def runs() -> bool:
            last = stage.status()
            return last is not None and last.state is State.RUNNING

        eventually(runs, 90, "the task runs", pause=0.3)
    finally:
        stop.set()
        thread.join(30)
        following.join(30)
        spark.end_tasks()
        spark.join(20)
        spark.stop()
        reporter.close()
        stage.close()
