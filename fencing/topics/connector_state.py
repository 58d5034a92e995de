"""The state of one connector that the config topic describes, as pure data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.modes import Mode
from ringfence.fencing.request_context import NOBODYS, RequestContext

if TYPE_CHECKING:  # records that are kept unchanged; what they change is defined here
    from ringfence.connectors.api import Signal
    from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
    from ringfence.fencing.topics.sweep_requests import SweepRequestRecord
    from ringfence.fencing.topics.topic_grants import TopicGrantRecord


class TargetState(StrEnum):
    """The state that the user wants, with Kafka Connect's names in the config topic."""

    RUNNING = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """A task's configuration and the offset of the record that holds it."""

    offset: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Commit:
    """The newest commit record: a generation, and its number of tasks."""

    generation: Generation
    tasks: int


@dataclass(frozen=True, slots=True)
class TaskCount:
    """The newest task count record: up to `tasks` transactional ids of `generation` may be in use at `target`.

    generation: None if Kafka Connect wrote the record; then a round is due before any of our tasks may start.
    elsewhere: see the record. partial: `target` lacks settings that could not be decrypted.
    """

    tasks: int
    generation: Generation | None
    target: Mapping[str, str] = field(default_factory=dict)
    elsewhere: bool | None = None
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Which attempt may run a task now. A larger `attempt` in the same generation replaces a smaller one.

    restarts, placed_ms: see `fencing.leader.next_placement`; mode: the worker's. These three do not make it another
    placement. after: the attempt that must end first; until then this one's slot is reserved, and it must not start.
    """

    worker: WorkerId
    incarnation: Incarnation
    attempt: int
    generation: Generation
    restarts: int = field(default=0, compare=False)
    placed_ms: int = field(default=0, compare=False)
    mode: Mode = field(default=Mode.ENABLED, compare=False)
    after: int = 0


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """All that the config topic says about one connector. `config` is None if it is deleted or was never created."""

    name: ConnectorName
    config: Mapping[str, str] | None = None
    config_offset: int = -1
    target: TargetState = TargetState.RUNNING
    target_offset: int = -1
    commit: Commit | None = None
    tasks: Mapping[int, TaskConfig] = field(default_factory=dict)
    pending: Mapping[int, TaskConfig] = field(default_factory=dict)
    count: TaskCount | None = None
    placements: Mapping[int, Placement] = field(default_factory=dict)
    unreadable: str | None = None
    topics_reset: int = -1
    """The offset of the newest reset of its active topics; -1 for none."""
    log_level: "ConnectorLevelRecord | None" = None
    topic_grant: "TopicGrantRecord | None" = None
    """The topics that it may write to; None: all but internal ones."""
    sweep_request: "SweepRequestRecord | None" = None
    """Offsets of its share group that its tasks must look at now."""
    signals: "Sequence[Signal]" = ()
    """The latest signals that users have sent to its tasks, ascending by number."""
    task_keys: int = 0
    """One more than the largest task number that has a task or placement record in the topic."""
    request: RequestContext = field(default=NOBODYS, compare=False)
    """The request that its newest record was written for. What the leader writes about it by itself keeps that."""

    @property
    def generation(self) -> Generation | None:
        return self.commit.generation if self.commit else None

    @property
    def round_pending(self) -> bool:
        """Whether the newest commit has no count record yet, so older tasks may be alive (KIP-618, "Zombie
        fencing").
        """
        return self.commit is not None and (self.count is None or self.count.generation != self.commit.generation)

    @property
    def tasks_stale(self) -> bool:
        """Whether the configuration is newer than its tasks, or the tasks are missing or incomplete."""
        return self.config is not None and not self._complete

    @property
    def _complete(self) -> bool:
        if self.config is None or self.commit is None or self.commit.generation <= self.config_offset:
            return False
        numbers = range(self.commit.tasks)
        return all(n in self.tasks and self.tasks[n].offset > self.config_offset for n in numbers)

    @property
    def startable(self) -> bool:
        """Whether the newest generation's tasks are complete. They may be placed, and wait for the round."""
        return self.unreadable is None and self._complete

    @property
    def runnable(self) -> bool:
        """Whether the newest generation's tasks may start: they are complete, and all older ones are fenced."""
        return self.startable and not self.round_pending

    @property
    def is_blank(self) -> bool:
        """Whether the topic says nothing about it, as about a name that was never used."""
        if self.config is not None or self.commit is not None or self.count is not None:
            return False  # nearly always: this is checked with each record
        return replace(self, config_offset=-1, target_offset=-1) == ConnectorState(self.name)

    def may_run(self, task: int, placement: Placement) -> bool:
        """Return whether this attempt may run: the newest placement of the newest generation of a complete task set."""
        return (
            self.startable
            and self.commit is not None
            and task < self.commit.tasks
            and placement.generation == self.commit.generation
            and not placement.after
            and self.placements.get(task) == placement
        )


def task_ids(state: ConnectorState) -> list[TaskId]:
    """Return the newest generation's tasks."""
    return [TaskId(state.name, n) for n in range(state.commit.tasks if state.commit else 0)]
