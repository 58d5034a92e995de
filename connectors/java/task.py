"""Adapts a Java source task to our interface, with a Java process for each task, or a connection to a shared one.

Java polls ahead by a few batches. Batches that this task has not returned yet have no effect, because only the worker
produces and commits. After an abort that the connector did not request, the task is ended, and a new one starts from
the committed offsets, as with any plugin.

Plugins do not support previews. So Debezium's connectors are configured to read the rows of the tables only: with the
connector's own settings, they would create a replication slot and a publication, or write to the schema history.
"""

import logging
import queue
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

from ringfence.connectors.api import (
    ConnectorError,
    RecordBatch,
    RecordPosition,
    RetriableError,
    Schema,
    SourceRecord,
    SourceTask,
)
from ringfence.connectors.api.errors import BadRecord
from ringfence.connectors.common_settings import (
    CONNECTOR_CLASS,
    JAVA_PROCESS,
    PLUGIN_VERSION,
    SHARED,
    SNAPSHOT_TRANSACTION,
)
from ringfence.connectors.java import runtime
from ringfence.connectors.java.channel import BatchFrame, Event, JavaChannel, JavaEnded, JavaFailure
from ringfence.connectors.java.discovery import choose_plugin, find_places, find_plugins, select_versions
from ringfence.connectors.java.files import require_allowed_files
from ringfence.connectors.java.processes import JavaProcess, connect_shared
from ringfence.connectors.java.runtime import JavaRuntime
from ringfence.connectors.sdk.guarded_connects import note_names

log = logging.getLogger(__name__)


class ReadyBytes:
    """The interface of converters and transforms for tasks that return serialized records only."""

    raw = True
    transforms = False
    column = None
    converters = None
    transforms_by_class: Sequence[tuple[str, Callable[[SourceRecord], SourceRecord | None]]] = ()
    converter_classes: Mapping[Any, str] = {}

    def record(self, record: SourceRecord) -> SourceRecord | None:
        return record

    def key(self, topic: str, value: object, schema: Schema | None) -> bytes | None:
        return _bytes(value)

    def value(self, topic: str, value: object, schema: Schema | None) -> bytes | None:
        return _bytes(value)

    def headers(self, topic: str, headers: Sequence[tuple[str, object]]) -> list[tuple[str, bytes | None]]:
        return [(name, _bytes(value)) for name, value in headers]


def _bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    raise TypeError(f"a Java connector must return bytes, not {type(value).__name__}")


PREVIEW: Final = "java.preview"
"""In a task's configuration: the task is for a preview, and starts without source offsets."""

_DEBEZIUM: Final = "io.debezium."
_READING: Final = {
    "snapshot.mode": "initial_only",
    "snapshot.locking.mode": "none",
    "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
    "heartbeat.interval.ms": "0",
    "signal.enabled.channels": "source",
    "notification.enabled.channels": "",
    "openlineage.integration.enabled": "false",
    SNAPSHOT_TRANSACTION: "false",
}


def changes_nothing(java_class: str) -> bool:
    """Return whether a preview of this connector is known not to change its source."""
    return java_class.startswith(_DEBEZIUM)


def preview_settings(java_class: str) -> Mapping[str, str]:
    """Return the settings that override a connector's own settings in a preview."""
    return {**_READING, PREVIEW: "true"} if changes_nothing(java_class) else {}


SILENT_SECONDS: Final = 30.0
"""A process that sends nothing for this long is killed; it sends a heartbeat every two seconds."""
_QUIET_SECONDS: Final = 15.0
"""How long a source that has refused counts as away without another refusal: many plugins return nothing, without
asking it, until their own pause is over. Debezium's is ten seconds.
"""
_TELLS: Final = 6
_TELL_AGAIN_SECONDS: Final = 6.0
"""How often, and how soon again, a task says what its plugin's log says. The pauses that follow grow each time, and
delay records that come in the meantime: after the sixth it is one of three seconds.
"""
_WAIT_SECONDS: Final = 0.3
_STOP_SECONDS: Final = 5.0
_LONG_POLL_MS: Final = 30_000
_LEVEL: Final = "INFO"
_LAG: Final = "MilliSecondsBehindSource"
_FIRST: Final = (_LAG, "Connected", "QueueRemainingCapacity", "TotalNumberOfEventsSeen", "SnapshotRunning")
_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_NOT_A_LABEL: Final = frozenset({"type", "server", "task", "connector", "name"})
_MOST: Final = 90
"""The maximum number of gauges, out of the hundred that a task may have."""
_MOST_LABELS: Final = 4


@runtime_checkable
class EncodingContext(Protocol):
    """The context of a task that may return `EncodedBatches`."""

    encoded_batch_bytes: int
    """The largest size of a batch in bytes; 0 if the task must not return any."""

    count_partitions: Callable[[str], int]
    """Returns how many partitions a topic has, and creates it first if it may."""


class JavaSourceTask(SourceTask):
    """The task of one Java class. `java_task_class` creates the subclass. number: of the task in its connector."""

    java_class: ClassVar[str]
    number: int = 0
    _process: JavaChannel | None = None
    _last_batch = 0
    _hears_commits = False
    _told_long_poll = False
    _refused_at = float("-inf")
    _tells = 0
    _tells_next_at = 0.0
    _positions: Sequence[RecordPosition | None] = ()
    _metrics: Mapping[str, float] | None = None
    _level = _LEVEL
    _level_until_ms = 0
    _encoding: "EncodingContext | None" = None
    _asked_topic: str | None = None

    def start(self, config: Mapping[str, str]) -> None:
        """Start the Java task, and wait until its `start` returns. Raises `ConnectorError`, `JavaFailure` with the
        stack trace, or `JavaEnded`.
        """
        java = runtime.current()
        if java is None:
            raise ConnectorError(
                f"{self.java_class} is a Java class, and this worker runs no Java connectors: add the folder of its "
                f"plugin to the worker's {runtime.PLUGIN_PATH}, and restart the worker"
            )
        require_allowed_files(config)
        self._encoding = self.context if isinstance(self.context, EncodingContext) else None
        java = _with_version(java, config)
        process = self._process = self._open(java, config)
        if self._level != _LEVEL:
            self.set_level(self._level, self._level_until_ms)
        task = {**config, "task.class": self.java_class}
        process.send(
            "run",
            name=config.get("name", ""),
            number=self.number,
            connector=dict(config),
            task=task,
            worker=dict(java.worker),
            batch_bytes=0 if self._encoding is None else self._encoding.encoded_batch_bytes,
        )
        while not (event := self._next()):
            if self.context.wait(0):
                raise ConnectorError("The task was stopped while the connector was starting")
        assert not isinstance(event, BatchFrame)
        self._expect_started(event)

    def _open(self, java: JavaRuntime, config: Mapping[str, str]) -> JavaChannel:
        """Return the connection with a process for this task. A preview has no offsets, and a process of its own."""
        if config.get(JAVA_PROCESS, "").strip() == SHARED and PREVIEW not in config:
            return connect_shared(java, lambda _connector: self.context.offset_reader, config.values())
        note_names(config.values())
        if PREVIEW in config:
            return JavaProcess(java, lambda _connector: None)
        return JavaProcess(java, lambda _connector: self.context.offset_reader)

    def _expect_started(self, event: Event) -> None:
        if event["event"] != "started":
            raise JavaFailure(str(event.get("trace", event)), str(event.get("kind", "")))
        self.wants_positions = bool(event.get("positions"))
        self._hears_commits = bool(event.get("commits"))
        self.polls_during_commit = not self._hears_commits

    def set_level(self, level: str, until_ms: int = 0) -> None:
        """Set the log level of the Java process, also after it is restarted. until_ms: since 1970; 0 for no end.

        May be called on any thread.
        """
        self._level, self._level_until_ms = level, until_ms
        process = self._process
        if process is not None:
            process.send("level", logger="", level=level)

    def poll(self) -> RecordBatch | None:
        self._answer()
        frame = self._next()
        self._follow_up()
        assert self._process is not None
        if frame is None:
            refuses = self._tell_of_connections()
            is_quiet = time.monotonic() - self._refused_at > _QUIET_SECONDS
            self.has_answered = not refuses and is_quiet and self._process.polling_ms < _LONG_POLL_MS
            return None
        if not isinstance(frame, BatchFrame):
            self._react(frame)
            return None
        self._process.connections.clear()
        self._tells = 0
        self._process.send("taken")
        self._last_batch = frame.number
        transactions = self.context.transaction_context
        if transactions is not None and frame.aborts:
            transactions.abort_transaction()
        elif transactions is not None and frame.commits:
            transactions.commit_transaction()
        return frame.batch

    def _tell_of_connections(self) -> bool:
        """Return whether the plugin's log says that it cannot connect. Raises `RetriableError` with the cause a few
        times: then the task is shown as trying again, although the plugin itself raises nothing.
        """
        assert self._process is not None
        cause, now = self._process.connections.cause, time.monotonic()
        if not cause:
            self._tells = 0
        elif self._tells < _TELLS and now >= self._tells_next_at:
            self._tells += 1
            self._tells_next_at = now + self._tells * _TELL_AGAIN_SECONDS
            self.has_answered = False
            raise RetriableError(cause)
        return bool(cause)

    def _answer(self) -> None:
        """Tell Java how many partitions a topic has, if it asked. Raises the error if the number cannot be found."""
        if self._asked_topic is None:
            return
        assert self._process is not None
        assert self._encoding is not None
        count = self._encoding.count_partitions(self._asked_topic)
        self._process.send("partitions", topic=self._asked_topic, count=count)
        self._asked_topic = None

    def commit(self) -> None:
        """Tell Java, if its class overrides `commit` or `commitRecord`; then no batch is taken during a commit."""
        if not self._hears_commits:
            return
        assert self._process is not None
        self._process.send("committed", through=self._last_batch, positions=self._positions or None)
        self._positions = ()

    def note_positions(self, positions: Sequence[RecordPosition | None]) -> None:
        self._positions = positions

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send("stop")
        deadline = time.monotonic() + _STOP_SECONDS
        while process.ended is None and time.monotonic() < deadline:
            try:
                frame = process.frames.get(timeout=0.2)
            except queue.Empty:
                continue
            if isinstance(frame, JavaEnded) or (not isinstance(frame, BatchFrame) and frame["event"] == "stopped"):
                break
        else:
            log.warning("The Java task did not stop within %.0f s; its process is ended", _STOP_SECONDS)
        process.close(0.5)

    def _next(self) -> BatchFrame | Event | None:
        """Return the next frame, or None if there is none after a moment. Raises `JavaEnded`."""
        assert self._process is not None
        try:
            frame = self._process.frames.get(timeout=_WAIT_SECONDS)
        except queue.Empty:
            self._look_after(self._process)
            return None
        if isinstance(frame, JavaEnded):
            raise frame
        return frame

    def _look_after(self, process: JavaChannel) -> None:
        silent = time.monotonic() - process.last_sign
        if silent > SILENT_SECONDS:
            process.kill(
                f"The Java process of the connector did not respond for {silent:.0f} s and was killed: it was "
                "suspended, or the machine has too little memory for it"
            )
        if process.polling_ms < _LONG_POLL_MS:
            self._told_long_poll = False
        elif not self._told_long_poll:
            self._told_long_poll = True
            log.warning(
                "The connector's poll has not returned for %d s: it is waiting for its source, or hangs",
                process.polling_ms // 1000,
            )

    def _follow_up(self) -> None:
        """Reset an expired log level, and set the source metrics from the plugin's MBeans."""
        assert self._process is not None
        if self._level_until_ms and time.time() * 1000 >= self._level_until_ms:
            self.set_level(_LEVEL)
        newest = self._process.metrics
        if newest is self._metrics:
            return
        self._metrics = newest
        for one in find_gauges(newest):
            gauge = self.context.metrics.gauge(one.name, one.description, unit=one.unit, labels=one.labels)
            gauge.set(one.value)

    def _react(self, event: Event) -> None:
        if event["event"] == "partitions":
            self._asked_topic = str(event["topic"])
            return
        if event["event"] == "retriable":
            self._refused_at = time.monotonic()
            raise RetriableError(str(event["message"]))
        record = event.get("record")
        bad = BadRecord(**record) if isinstance(record, dict) else None  # the keys of host/Tolerance.java
        raise JavaFailure(str(event.get("trace", event["event"])), str(event.get("kind", "")), bad)


def _with_version(java: JavaRuntime, config: Mapping[str, str]) -> JavaRuntime:
    """Return a runtime that sees only the version that the configuration requires. Raises `ConnectorError` if it is not
    installed.
    """
    class_name, requirement = config.get(CONNECTOR_CLASS, "").strip(), config.get(PLUGIN_VERSION)
    plugins = find_plugins(java.folders)
    chosen_plugin = choose_plugin(plugins, class_name, requirement)
    if chosen_plugin is not None:
        return replace(java, places=find_places(java.folders, chosen_plugin))
    installed = [plugin.version for plugin in select_versions(plugins, class_name)]
    if installed:
        raise ConnectorError(
            f"Version {requirement} of {class_name} is not installed on this worker; installed is "
            f"{', '.join(installed)}. Install it, or change {PLUGIN_VERSION}"
        )
    return java  # it may be an older name of the class; otherwise Java reports the missing class


def java_task_class(name: str) -> type[JavaSourceTask]:
    """Create the class for a Java task class, with the same dotted path."""
    module, _, simple = name.rpartition(".")
    return type(simple, (JavaSourceTask,), {"__module__": module, "__qualname__": simple, "java_class": name})


@dataclass(frozen=True, slots=True)
class FoundGauge:
    """The arguments of `connectors.api.metrics.SourceMetrics.gauge`, and a value."""

    name: str
    description: str
    value: float | None
    unit: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def find_gauges(attributes: Mapping[str, float]) -> Iterator[FoundGauge]:
    """Yield gauges, the most important first, up to the limit. attributes: values by `ObjectName/Attribute`."""
    order = sorted(attributes, key=lambda each: (not each.endswith(_FIRST), each))
    for full in order[:_MOST]:
        bean, _, attribute = full.rpartition("/")
        labels = _labels(bean)
        value = float(attributes[full])
        if attribute == _LAG:
            text = "Time by which the connector is behind its source"
            yield FoundGauge("lag", text, value / 1000 if value >= 0 else None, "seconds", labels)  # -1: unknown yet
        else:
            name = "_".join(word.lower() for word in _WORD.findall(attribute))
            if re.fullmatch(r"[a-z][a-z0-9_]{0,79}", name):
                yield FoundGauge(name, f"{attribute} of the connector's MBean", value, labels=labels)


def _labels(bean: str) -> dict[str, str]:
    """Return the bean's key properties, except those that identify the task."""
    pairs = (each.partition("=") for each in bean.partition(":")[2].split(","))
    labels = {key.replace("-", "_").lower(): value.strip('"') for key, _, value in pairs if key not in _NOT_A_LABEL}
    return {key: value for key, value in list(labels.items())[:_MOST_LABELS] if re.fullmatch(r"[a-z][a-z0-9_]*", key)}
