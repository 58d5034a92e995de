"""Runs a task on an executor, in Spark's Python worker: from its spec to the running plugin. It needs only Kafka."""

import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from ringfence import log_format
from ringfence.connectors import plugin_environments
from ringfence.connectors.api import ConfigException, Schema, SourceRecord, SourceTask
from ringfence.connectors.columns import Column
from ringfence.connectors.common_settings import CONNECTOR_CLASS, PLUGIN_VERSION
from ringfence.connectors.config_providers import ConfigProviders
from ringfence.connectors.converters import header_converter, key_converter, value_converter
from ringfence.connectors.converters.base import Converter, HeaderConverter
from ringfence.connectors.java import runtime as java_runtime
from ringfence.connectors.java.discovery import choose_plugin, find_plugins
from ringfence.connectors.java.task import JavaSourceTask, ReadyBytes
from ringfence.connectors.plugins import load_task_class
from ringfence.connectors.sdk import files, worker_limits
from ringfence.connectors.sdk.secret_names import hiding
from ringfence.connectors.transforms import build_transforms
from ringfence.fencing import request_context
from ringfence.fencing.ids import member_client_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.records.error_handling import Stage
from ringfence.fencing.task.joint_reads import JointReads
from ringfence.fencing.task.source_task import SourceTaskRun
from ringfence.fencing.task.task_spec import Outcome, Plugin, TaskSpec
from ringfence.fencing.topics.connector_logs import (
    DEFAULT,
    LEVELS,
    ConnectorLevelRecord,
    LogPublisher,
    SharedLogs,
)
from ringfence.fencing.topics.reporter import Reporter
from ringfence.memory_limit import explain, limit_memory, memory_limit

log = logging.getLogger(__name__)

_LAST_SECONDS = 5.0


class ConverterSettings(Protocol):
    """The settings that name a connector's converters and transforms, such as a `TaskSpec`."""

    @property
    def connector_config(self) -> Mapping[str, str]: ...

    @property
    def worker_settings(self) -> Mapping[str, str]: ...


class _Converters(NamedTuple):
    key: Converter
    value: Converter
    headers: HeaderConverter


class Conversion:
    """A connector's converters and transforms, bound once (`fencing.records.record_path.Convert`)."""

    def __init__(self, spec: ConverterSettings) -> None:
        config, worker = spec.connector_config, spec.worker_settings
        key, value = key_converter(config, worker), value_converter(config, worker)
        headers = header_converter(config, worker)
        chain = build_transforms(config)
        self.key: Callable[[str, object, Schema | None], bytes | None] = key.from_record
        self.value: Callable[[str, object, Schema | None], bytes | None] = value.from_record
        self.headers: Callable[[str, Sequence[tuple[str, object]]], list[tuple[str, bytes | None]]] = (
            headers.from_headers
        )
        self.transforms = bool(chain)
        self.converters = None if chain else _Converters(key, value, headers)
        self.raw = not chain and value.to_bytes_is_identity and key.to_bytes_is_identity
        self.column = self._column if all(transform.by_column for transform in chain) else None
        self._columns = [transform.apply_column for transform in chain]
        self._from_column = value.from_column
        self._chain = [transform.apply for transform in chain]
        self.transforms_by_class = [(transform.class_name, transform.apply) for transform in chain]
        self.converter_classes = {
            Stage.HEADER_CONVERTER: type(headers).__name__,
            Stage.KEY_CONVERTER: type(key).__name__,
            Stage.VALUE_CONVERTER: type(value).__name__,
        }

    def _column(self, column: Column) -> list[bytes | None] | None:
        for apply in self._columns:
            if not apply(column):
                return None
        return self._from_column(column)

    def record(self, record: SourceRecord) -> SourceRecord | None:
        """Return the record after all transforms; None if one of them dropped it."""
        current: SourceRecord | None = record
        for apply in self._chain:
            if current is None:
                return None
            current = apply(current)
        return current


class JavaLevel:
    """Passes the log level that a user sets for the connector on to the Java process of its task."""

    def __init__(self) -> None:
        self._task: JavaSourceTask | None = None
        self._level = DEFAULT, 0

    def take(self, task: JavaSourceTask) -> None:
        """Set the new instance, which has not started yet."""
        self._task = task
        task.set_level(*self._level)

    def follow(self, record: ConnectorLevelRecord | None) -> None:
        self._level = (record.level, record.until_ms) if record is not None and record.level in LEVELS else (DEFAULT, 0)
        if self._task is not None:
            self._task.set_level(*self._level)


def run_task(text: str) -> str:
    """Run the attempt of a `TaskSpec.dumps` to its end; return its `Outcome` as JSON."""
    spec = TaskSpec.loads(text)
    request_context.declare(spec.request)
    declare_worker(spec)
    reporter = create_reporter(spec, str(spec.task))
    size = memory_limit(spec.worker_settings)
    try:
        with limit_memory(size):
            outcome = run_spec(spec, reporter, tell_logs=True)
        reporter.flush(_LAST_SECONDS)
    finally:
        reporter.close()  # this process may run other tasks
    return json.dumps(write_outcome(outcome, size))


def declare_worker(spec: TaskSpec) -> None:
    """Set what all attempts of the worker have in common, for this process."""
    worker_limits.declare(worker_limits.of_settings(spec.worker_settings))
    java_runtime.declare(java_runtime.of_settings(spec.worker_settings))


def create_reporter(spec: TaskSpec, name: str) -> Reporter:
    """Return a reporter to the worker's topics. name: what its Kafka client is called, after the worker."""
    connection, placement = spec.connection, spec.placement
    client_id = f"{member_client_id(placement.worker, placement.incarnation)}:{name}"
    there = Connection(connection.bootstrap, connection.settings, client_id)
    return Reporter(there, spec.topics.status, spec.topics.events)


def write_outcome(outcome: Outcome, size: int | None) -> dict[str, object]:
    """Return the outcome for JSON. size: of the memory limit."""
    trace = None if outcome.trace is None else explain(outcome.trace, size)
    result = {"reason": outcome.reason, "trace": trace, "left_open": outcome.left_open}
    return result | ({"failure": outcome.failure.fields()} if outcome.failure is not None else {})


def run_spec(
    spec: TaskSpec,
    reporter: Reporter,
    *,
    tell_logs: bool = False,
    shared_logs: SharedLogs | None = None,
    joint: JointReads | None = None,
    on_run: Callable[[SourceTaskRun], None] = lambda _run: None,
) -> Outcome:
    """Run an attempt to its end. References to config providers are resolved here, for this attempt only.

    tell_logs: publish this process's log in the events topic, since it runs nothing else. shared_logs: of a process
    that runs several attempts, each on a thread; joint: that process's. on_run: called with the run before it begins.
    """
    providers = ConfigProviders(spec.worker_settings)
    connector, errors = providers.attempt(spec.connector_config)
    task, more = providers.attempt(spec.task_config)
    file_errors = files.find_refused({**connector.config, **task.config})
    problems = [*errors.values(), *more.values(), *file_errors.values()]

    level = JavaLevel()

    def make() -> SourceTask:
        if problems:
            raise ConfigException(problems[0])
        task = load_task_class(spec.task_class)()
        if isinstance(task, JavaSourceTask):
            task.number = spec.task.task
            level.take(task)
        return task

    def redact(text: str) -> str:
        return hide(task.hide(connector.hide(text)))

    spec = replace(spec, connector_config=connector.config, task_config=task.config)
    config = {**spec.connector_config, **spec.task_config}
    hide = hiding(config)
    task_class = _find_task_class(spec.task_class)
    java = task_class is not None and issubclass(task_class, JavaSourceTask)
    version = None if task_class is None else _version_of(task_class, connector.config)
    plugin = Plugin(make, config, ReadyBytes() if java else Conversion(spec), version, redact)
    placement = spec.placement
    tags = {"task": spec.task.task, "generation": placement.generation, "attempt": placement.attempt}
    logs = LogPublisher(reporter.event, spec.task.connector, {**tags, "worker": placement.worker}, redact)

    def follow(record: ConnectorLevelRecord | None) -> None:
        logs.follow(record)
        level.follow(record)

    run = SourceTaskRun(spec, plugin, reporter, on_level=follow, joint=joint)
    if threading.current_thread() is threading.main_thread():
        # The worker stops: commit the open transaction, so that readers need not wait until it times out.
        signal.signal(signal.SIGTERM, lambda _signal, _frame: run.end())
    on_run(run)
    if shared_logs is not None:
        with shared_logs.publishing(logs):
            return run.run()
    if not tell_logs:
        return run.run()
    log_format.describe_process(process="task", connector=spec.task.connector, **tags, worker=placement.worker)
    to_stderr = log_format.write_to_stderr(logging.WARNING, redact=redact)
    logs.install()
    try:
        return run.run()
    finally:
        logs.uninstall()
        logging.getLogger().removeHandler(to_stderr)  # the next task has other secrets


def _version_of(task_class: type[SourceTask], config: Mapping[str, str]) -> str | None:
    environment = plugin_environments.find_entered(os.environ)
    if environment is not None:
        class_name = config.get(CONNECTOR_CLASS, "").strip()
        return next((each.version for each in environment.plugins if class_name in each.names), None)
    return task_class.version or _java_version(config)


def _java_version(config: Mapping[str, str]) -> str | None:
    """Return the version of the configuration's Java plugin; None for any other plugin."""
    java = java_runtime.current()
    class_name = config.get(CONNECTOR_CLASS, "").strip()
    plugins = () if java is None else find_plugins(java.folders)
    try:
        plugin = choose_plugin(plugins, class_name, config.get(PLUGIN_VERSION))
    except ValueError:  # its start reports it
        return None
    return None if plugin is None else plugin.version


def _find_task_class(path: str) -> type[SourceTask] | None:
    """Return the class; None if it cannot be loaded. Then the run fails with the trace when it creates an instance."""
    try:
        return load_task_class(path)
    except (ImportError, TypeError):
        return None
