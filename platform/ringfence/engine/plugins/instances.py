"""The connector instances in the instance process, the limits of the task configurations that they make, and the
context of a task that runs without Kafka.

All connector instances of a leader share a process, so the number of tasks is cut before `task_configs` builds a
configuration for each. A connector from an earlier version, or with a value from a config provider, may ask for more.
"""

import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from ringfence.connectors.api import (
    ConnectorError,
    Converters,
    GroupInput,
    RecordRefused,
    ShareInput,
    Signal,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    TransactionContext,
)
from ringfence.connectors.common_settings import TASKS_MAX, TASKS_MAX_ENFORCE
from ringfence.connectors.config_providers import ResolvedConfig
from ringfence.connectors.java.channel import JavaFailure
from ringfence.connectors.plugins import PluginRegistry, class_path
from ringfence.connectors.sdk.delivery import chosen_boundary, with_boundary
from ringfence.connectors.sdk.worker_limits import TASKS_MAX_LIMIT, current
from ringfence.engine.plugins.errors import OffsetsNeeded, PluginError
from ringfence.engine.plugins.validation import find_for, redactor
from ringfence.fencing.task.plugin_metrics import Gauges
from ringfence.fencing.topics.topic_grants import TopicGrantRecord

logger = logging.getLogger(__name__)

TASK_CLASS = "task.class"
"""The key in a task's configuration that names its Python class."""

Offsets = Sequence[tuple[SourcePartition, SourceOffset | None]]
MAX_TASK_BYTES: Final = 700_000
"""Of one task's configuration, which must fit into a record, and is a third larger if it is encrypted."""
MAX_TOTAL_BYTES: Final = 32 * 1024 * 1024


class SnapshotReader:
    """The committed offsets that the host sent last."""

    def __init__(self, offsets: Offsets) -> None:
        self._offsets = [(dict(partition), offset) for partition, offset in offsets]

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        target = dict(partition)
        return next((offset for key, offset in self._offsets if key == target), None)

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        return [self.offset(partition) for partition in partitions]


class NoOffsets(SnapshotReader):
    """For a connector that declares that it reads no offsets."""

    def __init__(self) -> None:
        super().__init__(())

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        raise ConnectorError(
            "The connector reads its source offsets, and its class declares reads_offsets = False: remove that"
        )

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        return [self.offset(partition) for partition in partitions or ({},)]


def reader_for(connector: type[SourceConnector], offsets: Offsets) -> SnapshotReader:
    """Return the offset reader of an instance of this class."""
    return SnapshotReader(offsets) if connector.reads_offsets else NoOffsets()


class DetachedContext:
    """The context of a task without Kafka (`SourceTaskContext`). It joins no group, and admits every record."""

    def __init__(self, config: Mapping[str, str], offset_reader: SnapshotReader) -> None:
        self.config = config
        self.offset_reader = offset_reader
        self.raw_batches = False
        self.converters: Converters | None = None
        self.transaction_context: TransactionContext | None = None
        self.metrics = Gauges()
        self.signals: Sequence[Signal] = ()

    def refusal_to_join(self, group: str) -> ConnectorError:
        """The error for a task that asks to join; group: "the consumer group ..." or "a share group"."""
        return ConnectorError(f"This task cannot join {group}: it runs without Kafka.")

    def read_offsets(self) -> SnapshotReader:
        return self.offset_reader

    def join_group(
        self,
        group: str,
        topics: Sequence[str],
        *,
        session_timeout_ms: int,
        first: Mapping[tuple[str, int], int] | None = None,
    ) -> GroupInput:
        raise self.refusal_to_join(f"the consumer group {group}")

    def join_share_group(
        self,
        group: str | None,
        topics: Sequence[str],
        settings: Mapping[str, str],
        *,
        cluster: Mapping[str, str] | None = None,
    ) -> ShareInput:
        raise self.refusal_to_join("a share group")

    def admit(self, records: Sequence[SourceRecord]) -> Sequence[SourceRecord | RecordRefused]:
        """Admit all: nothing is delivered."""
        return records


class InstanceContext:
    """The context of a connector instance."""

    def __init__(
        self,
        offset_reader: SnapshotReader,
        reconfigure: Callable[[], None] = lambda: None,
        fail: Callable[[str], None] = logger.error,
        warn: Callable[[str], None] = logger.warning,
        grant: TopicGrantRecord | None = None,
        *,
        trial: bool = False,
    ) -> None:
        """fail: called with the trace of an error that the connector raises. grant: the topics that the connector may
        write to, None for all but internal ones.
        """
        self.offset_reader = offset_reader
        self.trial = trial
        self._reconfigure = reconfigure
        self._fail = fail
        self._warn = warn
        self._grant = grant

    def why_closed(self, topic: str) -> str:
        if current().internal(topic):
            return f"{topic} is an internal topic, to which connectors must not write. Name another topic"
        return "" if self._grant is None else self._grant.refusal(topic)

    def warn(self, text: str) -> None:
        self._warn(text)

    def request_task_reconfiguration(self) -> None:
        self._reconfigure()

    def raise_error(self, error: Exception) -> None:
        self._fail(str(error) if isinstance(error, JavaFailure) else "".join(traceback.format_exception(error)))


@dataclass
class _Running:
    connector: SourceConnector
    context: InstanceContext
    resolution: ResolvedConfig
    token: int

    @property
    def config(self) -> dict[str, str]:
        return self.resolution.config


class InstanceStart(TypedDict):
    """version: of the instance's code; reads_offsets: as its class declares."""

    version: str
    reads_offsets: bool


class InstanceRunner:
    """Starts, calls and stops instances by connector name. Calls for one name run one after another, on one thread.

    Tokens increase with each start and stop that the host requests: a start that arrives after a newer start or stop of
    the name (because the host was restarting a lost instance) does nothing.
    """

    def __init__(self, registry: PluginRegistry, emit: Callable[[dict[str, object]], None]) -> None:
        self._registry = registry
        self._emit = emit
        self._running: dict[str, _Running] = {}
        self._newest: dict[str, int] = {}

    def start(
        self,
        name: str,
        resolution: ResolvedConfig,
        offsets: Offsets | None,
        token: int,
        grant: Mapping[str, object] | None,
    ) -> InstanceStart:
        """Start the instance; a running one with this name is stopped first.

        offsets: None if they were not read, which raises `OffsetsNeeded` for a connector that reads them. grant: the
        value of the connector's record of granted topics, None if it has none.
        """
        plugin = find_for(self._registry, resolution.config)
        answer = InstanceStart(version=plugin.version, reads_offsets=bool(plugin.cls.reads_offsets))
        if self._newest.get(name, 0) > token:
            return answer
        self._newest[name] = token
        before = self._running.pop(name, None)
        if before is not None:
            _stop_quietly(name, before.connector)
        if offsets is None and plugin.cls.reads_offsets:
            raise OffsetsNeeded(f"Connector {name} reads its source offsets, and was not given them: start it again")
        connector = plugin.cls()
        event: dict[str, object] = {"event": "reconfigure", "connector": name}
        secrets = redactor(plugin, resolution.config)

        def fail(trace: str) -> None:
            self._emit({"event": "failed", "connector": name, "trace": secrets(resolution.hide(trace))})

        def warn(text: str) -> None:
            self._emit({"event": "warning", "connector": name, "text": secrets(resolution.hide(text))})

        context = InstanceContext(
            reader_for(plugin.cls, offsets or ()),
            lambda: self._emit(event),
            fail,
            warn,
            None if grant is None else TopicGrantRecord.parse("", name, dict(grant)),
        )
        connector.context = context
        try:
            connector.start(with_boundary(connector, resolution.config))
        except BaseException:
            _stop_quietly(name, connector)
            raise
        self._running[name] = _Running(connector, context, resolution, token)
        return answer

    def task_configs(self, name: str, max_tasks: int, offsets: Offsets | None) -> list[dict[str, str]]:
        """Return the tasks' configurations for storage, each with its `task.class`, without values of config
        providers, and with `transaction.boundary=connector` if the connector needs that and nobody has set it.

        max_tasks: 0 means the value in the resolved configuration.
        """
        running = self._running.get(name)
        if running is None:
            raise PluginError(f"Connector {name} has no running instance in the plugin process: start it first.")
        if offsets is not None:
            running.context.offset_reader = reader_for(type(running.connector), offsets)
        max_tasks, warning = cut_tasks(name, max_tasks or int(running.config.get(TASKS_MAX, "1")))
        if warning:
            running.context.warn(warning)
        configs = running.connector.task_configs(max_tasks)
        check_shape(name, configs)
        check_task_configs(name, configs)
        if len(configs) > max_tasks:
            text = (
                f"The connector {name} has generated {len(configs)} tasks, which is greater than {max_tasks}, "
                "the maximum number of tasks it is configured to create. "
            )
            if running.config.get(TASKS_MAX_ENFORCE, "true").strip().lower() != "false":
                raise PluginError(
                    f"{text}This behaviour should be considered a bug and is disallowed. If necessary, it can be "
                    f"permitted by reconfiguring the connector with '{TASKS_MAX_ENFORCE}' set to false"
                )
            logger.warning("%sThis behavior should be considered a bug. Accepted, as %s=false", text, TASKS_MAX_ENFORCE)
        task_class = class_path(type(running.connector).task_class())
        more = {TASK_CLASS: task_class, **chosen_boundary(running.connector, running.config)}
        return [{**running.resolution.restore_references(config), **more} for config in configs]

    def has(self, name: str) -> bool:
        """Return whether an instance of this name runs."""
        return name in self._running

    def redactor(self, name: str) -> Callable[[str], str]:
        """Return a function that hides the secrets of the instance's configuration."""
        running = self._running.get(name)
        if running is None:
            return str
        secrets = redactor(find_for(self._registry, running.config), running.config)
        return lambda text: secrets(running.resolution.hide(text))

    def stop(self, name: str, token: int) -> None:
        """Stop the instance, unless it is newer than the token. It counts as stopped even if its `stop` raises."""
        self._newest[name] = max(token, self._newest.get(name, 0))
        running = self._running.get(name)
        if running is not None and running.token <= token:
            del self._running[name]
            running.connector.stop()


def check_shape(name: str, configs: object) -> None:
    """Raise `PluginError` if the task configurations are not a list of dicts of strings."""
    if not isinstance(configs, list):
        raise PluginError(f"task_configs of connector {name} returned a {type(configs).__name__}, not a list.")
    for number, config in enumerate(configs):
        if not isinstance(config, dict):
            raise PluginError(
                f"task_configs of connector {name}: entry {number} is a {type(config).__name__}, not a dict."
            )
        wrong = [str(key) for key, value in config.items() if not (isinstance(key, str) and isinstance(value, str))]
        if wrong:
            raise PluginError(
                f"task_configs of connector {name}: the value of {wrong} in entry {number} is not a string."
            )


def _stop_quietly(name: str, connector: SourceConnector) -> None:
    try:
        connector.stop()
    except Exception:
        logger.exception("Connector %s failed to stop; its instance is dropped", name)


def cut_tasks(name: str, tasks: int) -> tuple[int, str]:
    """Return how many tasks the connector may make, and a warning for users if that is less than it asks for."""
    most = current().tasks
    if tasks <= most:
        return tasks, ""
    return most, (
        f"{TASKS_MAX} of connector {name} is {tasks}, and the workers allow {most}: it runs with {most} tasks at most. "
        f"Lower {TASKS_MAX}, or have an administrator raise {TASKS_MAX_LIMIT} in the workers' settings"
    )


def check_task_configs(name: str, configs: Sequence[Mapping[str, str]]) -> None:
    """Raise `PluginError` if there are more configurations than any connector may have, or larger ones."""
    most = current().tasks
    if len(configs) > most:
        raise PluginError(
            f"The connector {name} has generated {len(configs)} tasks, and the workers allow {most}. Nothing was "
            f"started. Lower {TASKS_MAX}, or have an administrator raise {TASKS_MAX_LIMIT} in the workers' settings"
        )
    total = 0
    for number, config in enumerate(configs):
        size = sum(len(key.encode()) + len(value.encode()) for key, value in config.items())
        if size > MAX_TASK_BYTES:
            raise PluginError(
                f"The configuration that connector {name} has generated for task {number} has {size:,} bytes, and may "
                f"have {MAX_TASK_BYTES:,} at most. Nothing was started. Raise {TASKS_MAX}, so that each task has less"
            )
        total += size
        if total > MAX_TOTAL_BYTES:
            raise PluginError(
                f"The configurations that connector {name} has generated for its tasks have more than "
                f"{MAX_TOTAL_BYTES:,} bytes. Nothing was started. Lower {TASKS_MAX}, or use several connectors"
            )
