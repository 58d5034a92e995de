"""A connector that reads a share group on the real broker: its config topic, its input, and its tasks as processes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import TaskId
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.offsets.ledger_keys import LEDGER_PARTITION
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.status import TaskStatus
from ringfence.testing.connector_run import ConfigTopic
from tests.guarantees.stage import read_statuses
from tests.support.waiting import eventually

FLOORS = {
    "group_share_min_record_lock_duration_ms": "1000",
    "group_share_min_heartbeat_interval_ms": "500",
    "group_share_heartbeat_interval_ms": "1000",
    "group_share_min_session_timeout_ms": "5000",
    "group_share_session_timeout_ms": "6000",
}
"""Of a broker whose locks expire soon enough for a test."""


BEGUN = "The first records are here"
"""What an attempt logs of them."""


class Queue(ConfigTopic):
    """One connector and its input."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        folder: Path,
        *,
        partitions: int = 2,
        replicas: int = 1,
        source: Connection | None = None,
    ) -> None:
        """source: the input's cluster, where it is another one than the output's and the ledger's."""
        super().__init__(connection, name, "queue", replicas=replicas)
        self.input = source or connection
        self.folder = folder
        self.share_group = f"{self.group}-{self.connector}"
        self.source, self.partitions = f"{name}-in", partitions
        self.target = f"out.{self.source}"
        create_topics(connection, [TopicSpec(self.target, partitions, replicas)], Deadline.after(30))
        create_topics(self.input, [TopicSpec(self.source, partitions, replicas)], Deadline.after(30))
        self.attempts: Counter[int] = Counter()
        self._logs: dict[int, Path] = {}
        self.processes: list[subprocess.Popen[str]] = []
        self.config: dict[str, str] = {}
        self.fed = 0

    def settings(self, **more: str) -> dict[str, str]:
        converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
        return {
            "name": self.connector,
            "topics": self.source,
            "source.cluster.alias": "out",
            "source.cluster.bootstrap.servers": self.input.bootstrap,
            "target.cluster.bootstrap.servers": self.connection.bootstrap,
            "consumer.poll.timeout.ms": "300",
            **{f"{part}.converter": converter for part in ("key", "value", "header")},
            "task.assigned.topics": f'{{"{self.source}":{self.partitions}}}',
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def configure(self, tasks: int, config: Mapping[str, str]) -> None:
        """A generation of so many tasks, behind the round of the one before."""
        self.config = dict(config)
        self.fence(self.tasks)
        self.write_generation(self.config, [self.config] * tasks)
        self.count()

    def spec(self, task: int) -> TaskSpec:
        """A new attempt of a task, placed."""
        self.attempts[task] += 1
        name = TaskId(self.connector, task)
        placement = self.place_task(name, self.attempts[task])
        worker = {
            "offset.flush.interval.ms": "60000",
            "transaction.timeout.ms": "20000",
            "egress.allow": "loopback",
        }
        return TaskSpec(self.connection, self.group, self.topics, name, placement, "", self.config, self.config, worker)

    def start(self, task: int, mode: str = "exact", stalled: float = 0.0) -> "subprocess.Popen[str]":
        """An attempt in a process of its own; its log is `<task>-<attempt>.log`."""
        spec = self.spec(task)
        path = self.folder / f"{task}-{self.attempts[task]}.log"
        log = path.open("w")
        command = [sys.executable, "-m", "tests.guarantees.share_worker", mode, spec.dumps(), str(stalled)]
        made = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.processes.append(made)
        self._logs[made.pid] = path
        return made

    def has_begun(self, process: "subprocess.Popen[str]") -> bool:
        """Whether this attempt has had a record."""
        return BEGUN in self._logs[process.pid].read_text()

    def feed(
        self, numbers: range, *, pause_s: float = 0.0, aborted: int = 0, enough: threading.Event | None = None
    ) -> None:
        """Transactions of 80 records, over all partitions; each `aborted`th one is aborted. `fed` counts the others.

        One whose outcome is not known is written again: what is in the input counts, however often it is there.
        enough: ends it before all are written, where the machine is slow.
        """
        enough = enough or threading.Event()
        pen = self._feeder(numbers.start)
        for count, start in enumerate(range(numbers.start, numbers.stop, 80), 1):
            if enough.is_set():
                break
            wanted = range(start, min(start + 80, numbers.stop))
            for lost in (True, False) if aborted and count % aborted == 0 else (False,):
                until = time.monotonic() + 120
                while not self._feed_once(pen, wanted, lost):
                    assert time.monotonic() < until, "the input cannot be written"
                    pen = self._feeder(numbers.start)
            self.fed += len(wanted)
            enough.wait(pause_s)

    def _feeder(self, number: int) -> Producer:
        pen = Producer({**self.input.librdkafka(), "transactional.id": f"{self.source}-feed-{number}"})
        until = time.monotonic() + 120
        while True:
            try:
                pen.init_transactions(30)
            except KafkaException:
                if time.monotonic() > until:
                    raise
            else:
                return pen

    def _feed_once(self, pen: Producer, wanted: range, lost: bool) -> bool:
        try:
            pen.begin_transaction()
            for number in wanted:
                value = b"%d%s" % (number, b" aborted" if lost else b"")
                pen.produce(self.source, value, None, number % self.partitions)
            pen.flush(30)
            if lost:
                pen.abort_transaction(30)
            else:
                pen.commit_transaction(30)
        except KafkaException:
            return False
        return True

    def visible(self) -> Counter[bytes]:
        """How often a read_committed reader sees each value of the output."""
        return self.read(self.target)

    def read(self, topic: str) -> Counter[bytes]:
        """The same of any topic."""
        cluster = self.input if topic == self.source else self.connection
        settings = {**cluster.librdkafka(), "group.id": "none", "enable.partition.eof": True}
        reader = Consumer({**settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"})
        found: Counter[bytes] = Counter()
        try:
            numbers = sorted(reader.list_topics(topic, 10).topics[topic].partitions)
            reader.assign([TopicPartition(topic, number, 0) for number in numbers])
            ends = 0
            while ends < len(numbers):
                for message in reader.consume(5000, 1.0):
                    if message.error() is not None:
                        ends += 1
                    else:
                        found[message.value() or b""] += 1
        finally:
            reader.close()
        return found

    def wait_for(self, records: int, seconds: float) -> None:
        eventually(lambda: len(self.visible()) >= records, seconds, f"{records} visible records", pause=0.5)

    def verdict(self) -> tuple[int, int]:
        """How many committed records of the input are missing in the output, and how many are there too often."""
        given, seen = self.read(self.source), self.visible()
        return (given - seen).total(), (seen - given).total()

    def tries(self) -> set[tuple[int, int]]:
        """Offsets of the input, and how often the sweep has tried them, as the ledger was ever told."""
        settings = self.connection.librdkafka(group_id="none", enable_partition_eof=True)
        reader = Consumer(settings)
        reader.assign([TopicPartition(self.topics.offsets, LEDGER_PARTITION, 0)])
        told: set[tuple[int, int]] = set()
        while (message := reader.poll(10)) is not None and message.error() is None:
            found = json.loads(message.value() or b"{}")
            told |= {(offset, times) for offset, times in found.get("tries", [])}
        reader.close()
        return told

    def statuses(self) -> dict[int, TaskStatus]:
        """The newest reported status of each task of this generation."""
        state = read_statuses(self.connection, self.topics.status)
        found = {number: state.tasks.get(TaskId(self.connector, number)) for number in range(self.tasks)}
        return {number: status for number, status in found.items() if status is not None}

    def states(self) -> dict[int, str]:
        """The newest reported state of each task of this generation."""
        return {number: str(status.state) for number, status in self.statuses().items()}

    def end(self, *, politely: bool = True) -> None:
        """End every process that is still there."""
        left = [one for one in self.processes if one.poll() is None]
        for one in left:
            os.kill(one.pid, signal.SIGCONT)
            one.terminate() if politely else one.kill()
        for one in left:
            try:
                one.wait(20)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait(10)
        self.processes.clear()

    def close(self) -> None:
        self.end(politely=False)
        super().close()
