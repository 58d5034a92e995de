"""All that a source task needs to run on any machine that reaches Kafka, as JSON; and its plugin."""

import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field

from ringfence.connectors.api import SourceTask
from ringfence.connectors.sdk.delivery import transaction_boundary
from ringfence.fencing import request_context
from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId, task_transactional_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.modes import MODE_KEY, Mode
from ringfence.fencing.offsets.source_offsets import OffsetsSnapshot
from ringfence.fencing.records.error_handling import Convert
from ringfence.fencing.request_context import NOBODYS, RequestContext
from ringfence.fencing.task.boundaries import Boundaries
from ringfence.fencing.topics.connector_state import Placement
from ringfence.fencing.topics.status.failed_record import RecordFailure
from ringfence.fencing.topics.topic_ids import Topics


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended. `trace` is None for a normal end (superseded, stopped, deleted).

    left_open: its transactional id may have an open transaction, which the next `init` or a fence of the id ends.
    failure: the record that failed it.
    """

    reason: str
    trace: str | None = None
    left_open: bool = False
    failure: RecordFailure | None = None


@dataclass(frozen=True, slots=True)
class Plugin:
    """The plugin's part: how to create an instance, its resolved configuration, and the conversion of its records."""

    make: Callable[[], SourceTask]
    config: Mapping[str, str]
    convert: Convert
    version: str | None = None
    redact: Callable[[str], str] = str
    """Takes secrets out of a string that is reported or logged."""


def overrides(plugin: SourceTask, method: str) -> bool:
    """Return whether the plugin overrides an optional method."""
    return getattr(type(plugin), method) is not getattr(SourceTask, method)


def readable(error: Exception) -> str:
    """Return the stack trace, for a status."""
    return "".join(traceback.format_exception(error)).rstrip()


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One attempt of one task.

    connector_config and task_config are as the config topic holds them: placeholders are resolved where the task runs.
    worker_settings: the worker's converter and timing settings. offsets: the source offsets of the connector that the
    worker knows.
    """

    connection: Connection
    group_id: str
    topics: Topics
    task: TaskId
    placement: Placement
    task_class: str
    connector_config: Mapping[str, str] = field(repr=False)
    task_config: Mapping[str, str] = field(repr=False)
    worker_settings: Mapping[str, str] = field(repr=False)
    offsets: OffsetsSnapshot | None = field(default=None, repr=False, compare=False)
    request: RequestContext = field(default=NOBODYS, compare=False)
    """The one that led to this attempt."""
    traced: bool = field(default=False, compare=False)
    """Whether a worker traces transactions, so that the attempt reports samples of them."""

    @property
    def transactional_id(self) -> str:
        return task_transactional_id(self.group_id, self.task)

    @property
    def boundaries(self) -> Boundaries:
        """Where transactions end. The leader notes in the task's configuration what the connector needs, if its
        configuration sets no boundary. Raises `Invalid`.
        """
        interval_ms = int(self.worker_settings.get("offset.flush.interval.ms", "60000"))
        return Boundaries.of(self.connector_config, interval_ms, transaction_boundary(self.task_config))

    @property
    def mode(self) -> Mode:
        """The worker's mode, in which the task runs. A launcher always sets it; the default is the strictest."""
        return Mode(self.worker_settings.get(MODE_KEY, Mode.ENABLED).lower())

    def dumps(self) -> str:
        """Return the inverse of `loads`. It contains credentials: do not log it."""
        return json.dumps(
            {
                "connection": self.connection.as_json(),
                "group_id": self.group_id,
                "topics": [*astuple(self.topics)],
                "task": [self.task.connector, self.task.task],
                "placement": [
                    self.placement.worker,
                    self.placement.incarnation,
                    self.placement.attempt,
                    self.placement.generation,
                    self.placement.restarts,
                ],
                "task_class": self.task_class,
                "connector_config": dict(self.connector_config),
                "task_config": dict(self.task_config),
                "worker_settings": dict(self.worker_settings),
                "offsets": self.offsets.as_json() if self.offsets is not None else None,
                "request": list(self.request),
                "traced": self.traced,
            }
        )

    @classmethod
    def loads(cls, text: str) -> "TaskSpec":
        value = json.loads(text)
        worker, incarnation, attempt, generation, restarts = value["placement"]
        return cls(
            Connection.from_json(value["connection"]),
            value["group_id"],
            Topics(*value["topics"]),
            TaskId(ConnectorName(value["task"][0]), value["task"][1]),
            Placement(WorkerId(worker), Incarnation(incarnation), attempt, Generation(generation), restarts),
            value["task_class"],
            value["connector_config"],
            value["task_config"],
            value["worker_settings"],
            OffsetsSnapshot.from_json(value["offsets"]) if value.get("offsets") else None,
            request_context.read(value.get("request")),
            value.get("traced") is True,
        )
