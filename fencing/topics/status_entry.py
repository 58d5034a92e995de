"""The base class of the status topic's record types: each knows its key, its value, and its effect.

A new type is one class, in its own module, and one line in `status.RECORD_TYPES`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ringfence.fencing.ids import ConnectorName, Generation, TaskId, WorkerId

if TYPE_CHECKING:  # records that are kept unchanged; what they change is defined here
    from ringfence.fencing.topics.status import (
        AnswerRecord,
        ConnectorStatus,
        LeaderRecord,
        SuspicionRecord,
        TaskStatus,
        WorkerRecord,
    )
    from ringfence.fencing.topics.topic_ids import TopicIds

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final

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
    suspicions: Mapping[WorkerId, "SuspicionRecord"] = field(default_factory=dict)
    answers: Mapping[WorkerId, "AnswerRecord"] = field(default_factory=dict)

    def at_work(self, connector: ConnectorName) -> Iterator["TaskStatus"]:
        """Return the last reports of the connector's attempts that have begun and, as far as is known, not ended."""
        statuses = (*self.tasks.values(), *self.leaving.values())
        return (status for status in statuses if status.task.connector == connector and status.at_work)


NOTE: Final = "Failed on a record: stage "
"""The beginning of the last line of a trace, for readers that only see the trace."""


def error_of(trace: str) -> str:
    """Return the last line of a trace that is not a NOTE; "" for an empty trace."""
    lines = [line.strip() for line in trace.strip().splitlines() if not line.startswith(NOTE)]
    return lines[-1] if lines else ""


Fields = Mapping[str, object]
"""A value: a JSON object."""


class StatusEntry(ABC):
    """A record that is not a tombstone. Subclasses are frozen dataclasses."""

    __slots__ = ()
    PREFIX: ClassVar[str]
    """The prefix of its keys."""

    @classmethod
    @abstractmethod
    def parse(cls, rest: str, value: Fields) -> "StatusEntry | None":
        """Parse the record with the key `PREFIX + rest`; None if that is not a key of this type.

        Raises KeyError, TypeError or ValueError for a value that cannot be read.
        """

    @abstractmethod
    def to_key(self) -> str: ...

    @abstractmethod
    def to_value(self) -> Fields: ...

    @abstractmethod
    def apply_to(self, state: "StatusState") -> "StatusState":
        """Return the state after this record."""

    @classmethod
    @abstractmethod
    def remove(cls, rest: str, state: "StatusState") -> "StatusState":
        """Return the state after a tombstone with the key `PREFIX + rest`."""


def parse_number(value: Fields, name: str, default: int = -1) -> int:
    """Return a number; `default` if the field is missing or not a number."""
    item = value.get(name, default)
    return item if isinstance(item, int) else default


def parse_text(value: Fields, name: str) -> str | None:
    """Return a string; None if the field is missing or empty."""
    item = value.get(name)
    return str(item) if item else None
