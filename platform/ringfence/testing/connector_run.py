"""A connector in the real runtime: its tasks in processes, with fenced generations, but without worker and Spark."""

from collections.abc import Mapping

from ringfence.connectors.api import SourceConnector, SourceOffset, SourcePartition
from ringfence.connectors.common_settings import CONNECTOR_CLASS, TASKS_MAX
from ringfence.connectors.plugins import class_path
from ringfence.engine.plugins.instances import TASK_CLASS
from ringfence.fencing.clock import Deadline
from ringfence.fencing.ids import TaskId
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.kafka.topic_admin import topic_identity, topic_names
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at
from ringfence.fencing.offsets.alteration import alteration_transactional_id, write
from ringfence.fencing.offsets.source_offsets import encode_key, read_offsets
from ringfence.fencing.task.task_spec import TaskSpec
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.fencing.transactions.producer import Producer
from ringfence.testing.attempt import AttemptProcess
from ringfence.testing.connector_calls import ask_task_configs
from ringfence.testing.control import ConfigTopic

_SECONDS = 60
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
        return topic_names(self._control.connection, self.name, Deadline.after(_SECONDS))

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
