"""The state that the status topic describes, as pure data: the newest record of each key."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ringfence.fencing.ids import ConnectorName, Generation, TaskId, WorkerId

if TYPE_CHECKING:  # records that are kept unchanged; what they change is defined here
    from ringfence.fencing.topics.status import ConnectorStatus, LeaderRecord, TaskStatus, WorkerRecord
    from ringfence.fencing.topics.topic_ids import TopicIds

Attempt = tuple[TaskId, Generation, int]
"""An attempt of a task: its generation, and its number in it."""


class State(StrEnum):
    """Kafka Connect's states of connectors and tasks. There are no others, since older clients fail on new ones."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    UNASSIGNED = "UNASSIGNED"
    RESTARTING = "RESTARTING"


@dataclass(frozen=True, slots=True)
class StatusState:
    """The state of the status topic.

    leaving: attempts that were running when a newer one was announced, and have not reported their end. A round waits
    for them for a moment; nothing else depends on them.
    """

    connectors: Mapping[ConnectorName, "ConnectorStatus"] = field(default_factory=dict)
    tasks: Mapping[TaskId, "TaskStatus"] = field(default_factory=dict)
    workers: Mapping[WorkerId, "WorkerRecord"] = field(default_factory=dict)
    leader: "LeaderRecord | None" = None
    topics: Mapping[ConnectorName, frozenset[str]] = field(default_factory=dict)
    leaving: Mapping[Attempt, "TaskStatus"] = field(default_factory=dict)
    topic_ids: "TopicIds | None" = None

    def at_work(self, connector: ConnectorName) -> Iterator["TaskStatus"]:
        """Return the last reports of the connector's attempts that have begun and, as far as is known, not ended."""
        statuses = (*self.tasks.values(), *self.leaving.values())
        return (status for status in statuses if status.task.connector == connector and status.at_work)
