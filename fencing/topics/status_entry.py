"""The base class of the status topic's record types: each knows its key, its value, and its effect.

A new type is one class, in its own module, and one line in `status.RECORD_TYPES`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from ringfence.fencing.ids import ConnectorName, Generation, TaskId, WorkerId
from ringfence.fencing.topics.changes import History, SharedMap, compare, extend, names_between

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

    history: History[ConnectorName] = field(default=(), init=False, repr=False, compare=False)
    """See `changes_since`. A state that no `StatusFold` has made has none."""

    def tasks_of(self, connector: ConnectorName) -> Iterator["TaskStatus"]:
        """Return the statuses of the connector's tasks."""
        return (self.tasks[TaskId(connector, number)] for number in self.numbers.get(connector, ()))

    def at_work(self, connector: ConnectorName) -> Iterator["TaskStatus"]:
        """Return the last reports of the connector's attempts that have begun and, as far as is known, not ended."""
        reports = (*self.tasks_of(connector), *self._leaving_of.get(connector, ()))
        return (report for report in reports if report.at_work)

    @cached_property
    def numbers(self) -> Mapping[ConnectorName, Set[int]]:
        """The numbers of the tasks that have a status, by connector."""
        numbers: dict[ConnectorName, set[int]] = {}
        for task in self.tasks:
            numbers.setdefault(task.connector, set()).add(task.task)
        return {name: _freeze(each) for name, each in numbers.items()}

    @cached_property
    def _leaving_of(self) -> Mapping[ConnectorName, Sequence["TaskStatus"]]:
        reports: dict[ConnectorName, list[TaskStatus]] = {}
        for status in self.leaving.values():
            reports.setdefault(status.task.connector, []).append(status)
        return reports

    def changes_since(self, before: "StatusState") -> Set[ConnectorName]:
        """Return the connectors with a status, a task's status or active topics that may be other objects than
        `before`: all that are, and few others. What is leaving does not count.
        """
        names = names_between(before.history, self.history)
        if names is not None:
            return names
        tasks = compare(before.tasks, self.tasks)
        return {task.connector for task in tasks}.union(
            compare(before.connectors, self.connectors), compare(before.topics, self.topics)
        )

    def part(self, names: Collection[ConnectorName]) -> "StatusState":
        """Return the same state as if the topic said nothing about other connectors than these."""
        return replace(
            self,
            connectors={name: self.connectors[name] for name in names if name in self.connectors},
            tasks={status.task: status for name in names for status in self.tasks_of(name)},
            topics={name: self.topics[name] for name in names if name in self.topics},
            leaving={},
        )


_ONLY_THE_FIRST: Final = frozenset({0})


def _freeze(numbers: Set[int]) -> frozenset[int]:
    """Return the numbers; for a connector with one task, as nearly all have, one object for all of them."""
    return _ONLY_THE_FIRST if numbers == _ONLY_THE_FIRST else frozenset(numbers)


class StatusFold:
    """Applies many records. It changes copies of the state's maps in place, so each record costs the same.

    `state` is an immutable snapshot, which may be passed to other threads.
    """

    def __init__(self, state: StatusState) -> None:
        self._connectors = SharedMap(state.connectors)
        self._tasks = SharedMap(state.tasks)
        self._numbers = SharedMap(state.numbers)
        self._own_numbers: dict[ConnectorName, set[int]] = {}
        self._topics = SharedMap(state.topics)
        self._history = state.history
        self._changes: set[ConnectorName] = set()
        self.workers = dict(state.workers)
        self.leader = state.leader
        self.topic_ids = state.topic_ids
        self.suspicions = dict(state.suspicions)
        self.answers = dict(state.answers)
        self._leaving: dict[TaskId, dict[Attempt, TaskStatus]] = {}
        for status in state.leaving.values():
            self.add_leaving(status)

    @property
    def state(self) -> StatusState:
        for name, numbers in self._own_numbers.items():
            if numbers:
                self._numbers.own()[name] = _freeze(numbers)
            else:
                self._numbers.own().pop(name, None)
        self._own_numbers.clear()
        self._history = extend(self._history, self._changes)
        self._changes.clear()
        state = StatusState(
            self._connectors.share(),
            self._tasks.share(),
            dict(self.workers),
            self.leader,
            self._topics.share(),
            {attempt: status for attempts in self._leaving.values() for attempt, status in attempts.items()},
            self.topic_ids,
            dict(self.suspicions),
            dict(self.answers),
        )
        # Neither is an argument, so that `replace` does not copy it.
        vars(state).update(history=self._history, numbers=self._numbers.share())
        return state

    def task(self, task: TaskId) -> "TaskStatus | None":
        """Return the task's status."""
        return self._tasks.get(task)

    def set_task(self, status: "TaskStatus") -> None:
        """Set a task's status."""
        task = status.task
        self._changes.add(task.connector)
        if self._tasks.get(task) is None:
            self._numbers_of(task.connector).add(task.task)
        self._tasks.own()[task] = status

    def remove_task(self, task: TaskId) -> None:
        """Remove a task's status, if there is one."""
        if self._tasks.get(task) is not None:
            self._changes.add(task.connector)
            self._numbers_of(task.connector).discard(task.task)
            del self._tasks.own()[task]
        self.clear_leaving(task)

    def _numbers_of(self, connector: ConnectorName) -> set[int]:
        """Return the connector's numbers as a set that nobody else has."""
        own = self._own_numbers.get(connector)
        if own is None:
            own = self._own_numbers[connector] = set(self._numbers.get(connector) or ())
        return own

    def set_connector(self, status: "ConnectorStatus") -> None:
        """Set a connector's status."""
        self._changes.add(status.connector)
        self._connectors.own()[status.connector] = status

    def remove_connector(self, name: ConnectorName) -> None:
        """Remove a connector's status, if there is one."""
        self._changes.add(name)
        self._connectors.own().pop(name, None)

    def topics(self, name: ConnectorName) -> frozenset[str]:
        """Return the connector's active topics."""
        return self._topics.get(name) or frozenset()

    def set_topics(self, name: ConnectorName, topics: frozenset[str]) -> None:
        """Set the connector's active topics."""
        self._changes.add(name)
        if topics:
            self._topics.own()[name] = topics
        else:
            self._topics.own().pop(name, None)

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
