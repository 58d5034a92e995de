"""The base class of the status topic's record types: each knows its key, its value, and its effect.

A new type is one class, in its own module, and one line in `status.RECORD_TYPES`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
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


@dataclass(frozen=True)
class StatusState:
    """The state of the status topic. `StatusFold` applies records.

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
        return iter(self._at_work.get(connector, ()))

    @cached_property
    def _at_work(self) -> Mapping[ConnectorName, Sequence["TaskStatus"]]:
        """Made once for all connectors: after a change of thousands, each of their rounds asks for its own."""
        reports: dict[ConnectorName, list[TaskStatus]] = {}
        for status in (*self.tasks.values(), *self.leaving.values()):
            if status.at_work:
                reports.setdefault(status.task.connector, []).append(status)
        return reports


class StatusFold:
    """Applies many records. It changes copies of the state's maps in place, so each record costs the same.

    `state` is an immutable snapshot, which may be passed to other threads.
    """

    def __init__(self, state: StatusState) -> None:
        self.connectors = dict(state.connectors)
        self.tasks = dict(state.tasks)
        self.workers = dict(state.workers)
        self.leader = state.leader
        self.topics = dict(state.topics)
        self.topic_ids = state.topic_ids
        self.suspicions = dict(state.suspicions)
        self.answers = dict(state.answers)
        self._leaving: dict[TaskId, dict[Attempt, TaskStatus]] = {}
        for status in state.leaving.values():
            self.add_leaving(status)

    @property
    def state(self) -> StatusState:
        return StatusState(
            dict(self.connectors),
            dict(self.tasks),
            dict(self.workers),
            self.leader,
            dict(self.topics),
            {attempt: status for attempts in self._leaving.values() for attempt, status in attempts.items()},
            self.topic_ids,
            dict(self.suspicions),
            dict(self.answers),
        )

    def add_leaving(self, status: "TaskStatus") -> None:
        """Note an attempt that was at work when a newer one was announced."""
        self._leaving.setdefault(status.task, {})[status.key] = status

    def remove_leaving(self, attempt: Attempt) -> None:
        """Forget an attempt that was leaving, if it was."""
        if attempts := self._leaving.get(attempt[0]):
            attempts.pop(attempt, None)

    def clear_leaving(self, task: TaskId) -> None:
        """Forget the task's attempts that were leaving."""
        self._leaving.pop(task, None)


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
    def apply_to(self, fold: StatusFold) -> None:
        """Apply this record."""

    @classmethod
    @abstractmethod
    def remove(cls, rest: str, fold: StatusFold) -> None:
        """Apply a tombstone with the key `PREFIX + rest`."""


def parse_number(value: Fields, name: str, default: int = -1) -> int:
    """Return a number; `default` if the field is missing or not a number."""
    item = value.get(name, default)
    return item if isinstance(item, int) else default


def parse_text(value: Fields, name: str) -> str | None:
    """Return a string; None if the field is missing or empty."""
    item = value.get(name)
    return str(item) if item else None
