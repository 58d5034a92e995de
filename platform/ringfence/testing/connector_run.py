"""A connector in the real runtime: its tasks in processes, with fenced generations, but without worker and Spark."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ringfence.connectors.api import SourceConnector, SourceOffset, SourcePartition
from ringfence.connectors.common_settings import CONNECTOR_CLASS, TASKS_MAX
from ringfence.connectors.plugins import class_path
from ringfence.connectors.sdk.delivery import chosen_boundary, with_boundary
from ringfence.engine.plugins.instances import TASK_CLASS, InstanceContext, check_shape, reader_for
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId, task_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, topic_identity, topic_names
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at
from ringfence.fencing.offsets.alteration import alteration_transactional_id, write
from ringfence.fencing.offsets.source_offsets import encode_key, read_offsets
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    PlacementRecord,
    TaskCountRecord,
    TaskRecord,
    encode,
)
from ringfence.fencing.topics.connector_state import Placement
from ringfence.fencing.topics.topic_ids import Topics
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer
from ringfence.local.errors import LocalError


def ask_task_configs(
    cls: type[SourceConnector],
    config: Mapping[str, str],
    most: int,
    offsets: Sequence[tuple[SourcePartition, SourceOffset]] = (),
) -> list[dict[str, str]]:
    """Return `task_configs(most)` of a new instance. Raises what the connector raises, and for a wrong form."""
    connector = cls()
    connector.context = InstanceContext(reader_for(type(connector), offsets))
    try:
        connector.start(with_boundary(connector, config))
        configs = connector.task_configs(most)
        check_shape(config["name"], configs)
        return [{**each, **chosen_boundary(connector, config)} for each in configs]
    finally:
        connector.stop()


def list_errors(answer: Mapping[str, object]) -> list[str]:
    """Return each error of a validation's answer, after its setting."""
    values = [each["value"] for each in cast("list[dict[str, dict[str, object]]]", answer["configs"])]
    return [f"{value['name']}: {error}" for value in values for error in cast("list[str]", value["errors"])]


_SECONDS = 60


class ConfigTopic:
    """Separate topics, and the leader's producer. Not shared between threads; `close` it."""

    def __init__(self, connection: Connection, name: str, connector: str, *, replicas: int = 1) -> None:
        """name: the prefix of its topics and its group. replicas: of each topic."""
        self.connection = connection
        self.group = f"{name}-group"
        self.topics = Topics(f"{name}-config", f"{name}-offsets", f"{name}-status", f"{name}-events")
        self.connector = ConnectorName(connector)
        single = [self.topics.config, self.topics.status, self.topics.events]
        offsets = TopicSpec(self.topics.offsets, 3, replicas, {"cleanup.policy": "compact"})
        topics = [*(TopicSpec(topic, 1, replicas) for topic in single), offsets]
        create_topics(connection, topics, Deadline.after(_SECONDS))
        self.producer = Producer(connection, f"{name}-leader")
        self.producer.init(Deadline.after(_SECONDS))
        self.generation = Generation(-1)
        self.tasks = 0

    def write(self, *records: ConfigRecord) -> int:
        """Write the records in one transaction. Returns the offset of the last record, as the broker reports it.

        Readers see the records when it returns: an attempt that is placed and started at once finds its placement.
        Counting would not work: a broker that is killed, or whose followers leave, may append a marker twice.
        """
        last = -1

        def note(_partition: int, offset: int, _time_ms: int) -> None:
            nonlocal last
            last = max(last, offset)

        self.producer.begin()
        for record in records:
            key, value = encode(record)
            self.producer.produce(self.topics.config, value, key, on_written=note)
        deadline = Deadline.after(_SECONDS)
        while self.producer.flush(deadline.slice(1.0)):
            assert not deadline.expired, f"{self.topics.config} accepted no records for {_SECONDS} s"
        self.producer.commit(deadline)
        self._await_marker(last, deadline)
        return last

    def _await_marker(self, start: int, deadline: Deadline) -> None:
        """Wait for the marker of a commit: the coordinator answers before it is written."""
        log = TopicLog(self.connection, self.topics.config, {0: start}, deadline=deadline)
        try:
            for _ in log.catch_up(deadline, own=self.producer.producer_id):
                pass
        finally:
            log.close()

    def write_generation(self, config: Mapping[str, str], task_configs: Sequence[Mapping[str, str]]) -> None:
        """Write a new generation with these tasks, which is not fenced yet."""
        tasks = [TaskRecord(TaskId(self.connector, n), each) for n, each in enumerate(task_configs)]
        commit = self.write(ConnectorRecord(self.connector, config), *tasks, CommitRecord(self.connector, len(tasks)))
        self.generation = Generation(commit)
        self.tasks = len(tasks)

    def fence(self, tasks: int) -> None:
        """Fence the producers of the tasks 0 to `tasks` - 1, as a fencing round does."""
        ids = [task_transactional_id(self.group, TaskId(self.connector, number)) for number in range(tasks)]
        with Fencer(self.connection, _SECONDS) as fencer:
            fencer.fence(ids, Deadline.after(_SECONDS))

    def count(self) -> None:
        """Write the task count record, which ends the generation's fencing round."""
        self.write(TaskCountRecord(self.connector, self.tasks, self.generation))

    def place_task(self, task: TaskId, attempt: int) -> Placement:
        """Place an attempt, which permits it to run. A newer attempt supersedes an older one."""
        placement = Placement(WorkerId("w"), Incarnation("i"), attempt, self.generation)
        self.write(PlacementRecord(task, placement.worker, placement.incarnation, attempt, self.generation))
        return placement

    def close(self) -> None:
        self.producer.close()


_STACKS_SECONDS = 1.0
_MOST_LOG = 20_000


class AttemptProcess:
    """Starts at once. `close` ends the process; it also ends with this process, even if that is killed."""

    def __init__(self, spec: TaskSpec) -> None:
        self._outcome: dict[str, Any] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the attempt
        # The child inherits it: a request to stop is pending until the child can handle it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ringfence.testing.attempt_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                # Find a connector that is not installed where this process has found it.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert self._process.stdin is not None
        self._lifeline = self._process.stdin
        self._process.stdin = None  # otherwise `communicate` would close it
        self._lifeline.write(spec.dumps() + "\n")
        self._lifeline.flush()

    @property
    def log(self) -> str:
        """Return what it has written to standard error so far."""
        # The process shares the file's position and writes there: do not move it.
        errors = self._errors.fileno()
        return os.pread(errors, os.fstat(errors).st_size, 0).decode(errors="replace")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Send SIGKILL; return when the process is gone."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Send SIGSTOP, like a long pause of the machine."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def read_stacks(self) -> str:
        """Have it write the stacks of its threads to its log, and return the log's end."""
        self._process.send_signal(signal.SIGUSR2)
        time.sleep(_STACKS_SECONDS)
        return self.log[-_MOST_LOG:]

    def request_stop(self) -> None:
        """Send SIGTERM and return at once."""
        self._process.send_signal(signal.SIGTERM)

    def stop(self, seconds: float = 60) -> dict[str, Any]:
        """Send SIGTERM, like a worker that stops: the open transaction is committed. See `outcome`."""
        self.request_stop()
        return self.outcome(seconds)

    def outcome(self, seconds: float = 60) -> dict[str, Any]:
        """Wait for its end, and return `{"reason", "trace", "left_open"}`.

        Raises `subprocess.TimeoutExpired`, with the stacks of its threads, and LocalError if it has ended without an
        outcome.
        """
        if self._outcome is None:
            try:
                out, _ = self._process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired as error:
                error.add_note(self.read_stacks())
                raise
            if not out:
                raise LocalError(f"The task's process ended with code {self._process.returncode}: {self.log[-2000:]}")
            self._outcome = json.loads(out)
        return self._outcome

    def close(self) -> None:
        if self.running:
            self._process.kill()
            self._process.wait()
        for pipe in (self._lifeline, self._process.stdout, self._errors):
            if pipe is not None:
                pipe.close()


_WORKER = {
    "offset.flush.interval.ms": "60000",
    "transaction.timeout.ms": "60000",
    "exactly.once.source.support": "enabled",
    "egress.allow": "public,private,loopback",
    "key.converter": "JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}
"""The worker's settings; a configuration's own converters take precedence."""


def worker_settings(folder: str) -> dict[str, str]:
    """Return the settings of the worker that the tasks seem to run on. Files below `folder` may be read and written."""
    return {**_WORKER, "file.roots": folder, "file.write.roots": folder}


class ConnectorRun:
    """One connector, on topics with the prefix `name`. `close` it."""

    def __init__(
        self, bootstrap: str, name: str, cls: type[SourceConnector], config: Mapping[str, str], folder: str
    ) -> None:
        """folder: where the tasks may read and write files."""
        self.name = name
        self.cls = cls
        self._config = {**config, "name": name, CONNECTOR_CLASS: class_path(cls)}
        self._worker = worker_settings(folder)
        self._control = ConfigTopic(Connection(bootstrap), f"ringfence-testing-{name}", name)
        self._attempts = 0
        self.running: list[AttemptProcess] = []
        """The attempts of the newest generation, by task."""
        self._older: list[AttemptProcess] = []

    def start(self, tasks: int) -> None:
        """Start a new generation with at most this number of tasks, after fencing the previous one."""
        config = {**self._config, TASKS_MAX: str(tasks)}
        task_configs = self.task_configs(tasks)
        before = self._control.tasks
        self._control.write_generation(config, task_configs)
        self._control.fence(max(before, len(task_configs)))
        self._control.count()
        self._older += self.running
        self.running = []
        self._attempts += 1
        for number, task_config in enumerate(task_configs):
            self.running.append(self._start_task(number, config, task_config))

    def task_configs(self, tasks: int) -> list[dict[str, str]]:
        """Return the connector's current task configurations, as the worker completes them."""
        configs = ask_task_configs(self.cls, {**self._config, TASKS_MAX: str(tasks)}, tasks, self.offsets())
        return [{**each, TASK_CLASS: class_path(self.cls.task_class())} for each in configs]

    def _start_task(self, number: int, config: Mapping[str, str], task_config: Mapping[str, str]) -> AttemptProcess:
        control = self._control
        task = TaskId(control.connector, number)
        return AttemptProcess(
            TaskSpec(
                control.connection,
                control.group,
                control.topics,
                task,
                control.place_task(task, self._attempts),
                class_path(self.cls.task_class()),
                config,
                task_config,
                self._worker,
            )
        )

    def kill(self) -> None:
        """Send SIGKILL to all running tasks."""
        for attempt in self.running:
            attempt.kill()

    def visible(self) -> list[LogRecord]:
        """Return what a read_committed consumer reads now, from all topics of the connector."""
        records: list[LogRecord] = []
        for topic in self._topics():
            log = TopicLog(self._control.connection, topic)
            try:
                records.extend(log.read_to_end(Deadline.after(_SECONDS)))
            finally:
                log.close()
        return records

    def has_open_transaction(self) -> bool:
        """Return whether a topic has records of an open transaction."""
        return any(self._is_open(topic) for topic in self._topics())

    def _is_open(self, topic: str) -> bool:
        connection, deadline = self._control.connection, Deadline.after(_SECONDS)
        _, partitions = topic_identity(connection, topic, deadline)
        stable = offsets_at(connection, topic, partitions, OffsetKind.STABLE, deadline)
        ends = offsets_at(connection, topic, partitions, OffsetKind.END, deadline)
        return any(stable[partition] < end for partition, end in ends.items())

    def _topics(self) -> list[str]:
        return topic_names(self._control.connection, Deadline.after(_SECONDS), self.name)

    def offsets(self) -> list[tuple[SourcePartition, SourceOffset]]:
        """Return the committed source offsets."""
        control = self._control
        if control.generation < 0:
            return []
        offsets = read_offsets(control.connection, control.topics.offsets, control.connector, Deadline.after(_SECONDS))
        return [(each.partition, each.offset) for each in offsets.present() if each.offset is not None]

    def reset_offsets(self) -> None:
        """Delete all source offsets, as the REST API does for a stopped connector.

        Raises what the connector's `alter_offsets` raises.
        """
        control, offsets = self._control, self.offsets()
        self.cls().alter_offsets(self._config, [(partition, None) for partition, _ in offsets])
        ledger_id = alteration_transactional_id(control.group, control.connector)
        write(
            lambda: Producer(control.connection, ledger_id),
            control.topics.offsets,
            lambda: [(encode_key(control.connector, partition), None) for partition, _ in offsets],
            Deadline.after(_SECONDS),
        )

    def close(self) -> None:
        for attempt in [*self._older, *self.running]:
            attempt.close()
        self._control.close()
