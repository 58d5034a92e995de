"""What the config topic says, as pure data: `Fold(state)` takes records in (KIP-618, "Task count records").

Every reader (leader, worker, task, projection) folds the same records with this one function, so all of them agree
on generations, on which rounds are pending and on who may run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.modes import Mode
from ringfence.fencing.topics.active_topics import TopicsResetRecord
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    DrainRecord,
    Forgotten,
    ForgottenRecord,
    PlacementRecord,
    RestartRecord,
    SessionKeyRecord,
    TargetState,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
    UnknownKey,
)
from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
from ringfence.fencing.topics.log_levels import LoggerRecord
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.fencing.topics.topic_ids import TopicIds


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """A task's configuration and the offset of the record that holds it."""

    offset: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Commit:
    """The newest commit record: a generation, and how many tasks it has."""

    generation: Generation
    tasks: int


@dataclass(frozen=True, slots=True)
class TaskCount:
    """The newest task count record: up to `tasks` transactional ids of `generation` may be alive at `target`.

    generation is None where Kafka Connect wrote the record: a round is due before anything of ours may start.
    elsewhere: see the record.
    """

    tasks: int
    generation: Generation | None
    target: Mapping[str, str] = field(default_factory=dict)
    elsewhere: bool | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Who may run a task now. A larger `attempt` in the same generation replaces a smaller one.

    restarts, placed_ms: see `fencing.leader.restarts`; mode: the worker's; they do not make it another placement.
    after: the attempt that must have ended first; this one's place is reserved in the meantime, and it may not start.
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
    """All that the config topic says about one connector. `config` None: deleted, or not created (any more)."""

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
    """The offset of the newest reset of its active topics; -1 where there is none."""
    log_level: ConnectorLevelRecord | None = None
    topic_grant: TopicGrantRecord | None = None
    """The topics that it may write to; None: all but internal ones."""
    task_keys: int = 0
    """One more than the largest task number that has a task or placement record in the topic."""

    @property
    def generation(self) -> Generation | None:
        return self.commit.generation if self.commit else None

    @property
    def round_pending(self) -> bool:
        """The newest commit has no count record of its own: older tasks may be alive (KIP-618, "Zombie fencing")."""
        return self.commit is not None and (self.count is None or self.count.generation != self.commit.generation)

    @property
    def tasks_stale(self) -> bool:
        """The configuration is newer than the task set that was made from it, or there is no (complete) task set."""
        return self.config is not None and not self._complete

    @property
    def _complete(self) -> bool:
        if self.config is None or self.commit is None or self.commit.generation <= self.config_offset:
            return False
        numbers = range(self.commit.tasks)
        return all(n in self.tasks and self.tasks[n].offset > self.config_offset for n in numbers)

    @property
    def startable(self) -> bool:
        """The newest generation's tasks are known and complete; they may be placed, and wait for the round."""
        return self.unreadable is None and self._complete

    @property
    def runnable(self) -> bool:
        """The newest generation's tasks may start: complete, and all older ones fenced."""
        return self.startable and not self.round_pending

    @property
    def is_blank(self) -> bool:
        """The topic says nothing of it any more, as of a name that was never used."""
        if self.config is not None or self.commit is not None or self.count is not None:
            return False  # nearly always: this is asked with each record
        return replace(self, config_offset=-1, target_offset=-1) == ConnectorState(self.name)

    def may_run(self, task: int, placement: Placement) -> bool:
        """Whether this very attempt may run: the newest placement of the newest generation of a complete task set."""
        return (
            self.startable
            and self.commit is not None
            and task < self.commit.tasks
            and placement.generation == self.commit.generation
            and not placement.after
            and self.placements.get(task) == placement
        )


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The whole config topic up to, not including, `end`."""

    end: int = 0
    connectors: Mapping[ConnectorName, ConnectorState] = field(default_factory=dict)
    session_key: SessionKeyRecord | None = None
    restarts: Mapping[ConnectorName, tuple[int, RestartRecord]] = field(default_factory=dict)
    loggers: Mapping[str, tuple[int, str | None]] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    drained: Mapping[WorkerId, Incarnation] = field(default_factory=dict)
    """Workers that get no tasks: only in this incarnation, so a restart ends it."""
    topic_ids: TopicIds | None = None

    def connector(self, name: ConnectorName) -> ConnectorState:
        """The connector's state; an empty one where the topic says nothing about it."""
        return self.connectors.get(name) or ConnectorState(name)

    def existing(self) -> Iterator[ConnectorState]:
        """Connectors that have a configuration."""
        return (state for state in self.connectors.values() if state.config is not None)

    def __contains__(self, name: ConnectorName) -> bool:
        state = self.connectors.get(name)
        return state is not None and state.config is not None


class Fold:
    """Folds many records: a copy of the state's maps is changed in place, so each record costs the same.

    `state` is a snapshot that nothing changes any more: it may be handed to other threads.
    """

    def __init__(self, state: ClusterState) -> None:
        self._end = state.end
        self._connectors = dict(state.connectors)
        self._session_key = state.session_key
        self._restarts = dict(state.restarts)
        self._loggers = dict(state.loggers)
        self._unknown = set(state.unknown)
        self._drained = dict(state.drained)
        self._topic_ids = state.topic_ids

    @property
    def state(self) -> ClusterState:
        return ClusterState(
            self._end,
            dict(self._connectors),
            self._session_key,
            dict(self._restarts),
            dict(self._loggers),
            frozenset(self._unknown),
            dict(self._drained),
            self._topic_ids,
        )

    def knows(self, key: str) -> bool:
        """Whether this unknown key was met before."""
        return key in self._unknown

    def connector(self, name: ConnectorName) -> ConnectorState:
        """As `ClusterState.connector`."""
        return self._connectors.get(name) or ConnectorState(name)

    def apply(self, offset: int, record: ConfigRecord) -> None:
        """One more record. They must come in the order of their offsets, committed ones only."""
        self._end = offset + 1
        match record:
            case SessionKeyRecord():
                self._session_key = record
                return
            case TopicIds():
                self._topic_ids = record
                return
            case UnknownKey(key):
                self._unknown.add(key)
                return
            case RestartRecord():
                self._restarts[record.connector] = (offset, record)
                return
            case LoggerRecord(logger, level):
                self._loggers[logger] = (offset, level)
                return
            case DrainRecord(worker, incarnation):
                self._drained.pop(worker, None)
                if incarnation is not None:
                    self._drained[worker] = incarnation
                return
            case TaskRecord(task, _) | PlacementRecord(task):
                name = task.connector
            case (
                ConnectorRecord(name, _)
                | CommitRecord(name, _)
                | TargetStateRecord(name, _)
                | TaskCountRecord(name)
                | ForgottenRecord(name, _)
                | TopicsResetRecord(name, _)
                | ConnectorLevelRecord(name, _, _)
                | TopicGrantRecord(name, _, _)
            ):
                pass
        self._set(apply_connector(self.connector(name), offset, record))

    def forget_session_key(self, offset: int) -> None:
        """It cannot be read: as if there were none."""
        self._end = offset + 1
        self._session_key = None

    def mark_unreadable(self, offset: int, connector: ConnectorName, reason: str) -> None:
        """A value under a readable connector name could not be read: that connector stops, the rest goes on."""
        self._end = offset + 1
        self._set(replace(self.connector(connector), unreadable=reason))

    def _set(self, connector: ConnectorState) -> None:
        if connector.is_blank:
            self._connectors.pop(connector.name, None)
        else:
            self._connectors[connector.name] = connector


def apply(state: ClusterState, offset: int, record: ConfigRecord) -> ClusterState:
    """The state after one more record; for many records, see `Fold`."""
    folding = Fold(state)
    folding.apply(offset, record)
    return folding.state


def apply_connector(state: ConnectorState, offset: int, record: ConfigRecord) -> ConnectorState:
    """One connector's state after one more of its records."""
    match record:
        case ConnectorRecord(_, None):
            # A deleted connector keeps its count and its commit: what may still be alive must be fenced (KIP-618).
            return replace(state, config=None, config_offset=offset, tasks={}, pending={}, unreadable=None)
        case ConnectorRecord(_, config):
            return replace(state, config=config, config_offset=offset, unreadable=None)
        case TaskRecord(task, None):
            return replace(state, pending={n: c for n, c in state.pending.items() if n != task.task})
        case TaskRecord(task, config) if config is not None:
            pending = {**state.pending, task.task: TaskConfig(offset, config)}
            return replace(state, pending=pending, task_keys=max(state.task_keys, task.task + 1))
        case CommitRecord(_, tasks):
            known = {**state.tasks, **state.pending}
            kept = {n: task for n, task in known.items() if n < tasks}
            return replace(state, commit=Commit(Generation(offset), tasks), tasks=kept, pending={}, placements={})
        case TargetStateRecord(_, target):
            return replace(state, target=target or TargetState.RUNNING, target_offset=offset)
        case TaskCountRecord(_, tasks, generation, target_, elsewhere):
            return replace(state, count=TaskCount(tasks, generation, target_, elsewhere))
        case ForgottenRecord(_, Forgotten.COMMIT):
            return replace(state, commit=None, tasks={}, pending={}, placements={}, task_keys=0)
        case ForgottenRecord(_, Forgotten.COUNT):
            return replace(state, count=None)
        case ForgottenRecord(_, Forgotten.FENCING):
            ours = state.count is not None and state.count.generation is not None
            return state if ours else replace(state, count=None)
        case PlacementRecord(task, None):
            return replace(state, placements={n: p for n, p in state.placements.items() if n != task.task})
        case PlacementRecord(task, worker, incarnation, attempt, generation) if worker is not None:
            about = (record.restarts, record.placed_ms, record.mode, record.after)
            placement = Placement(worker, incarnation, attempt, generation, *about)
            placements = {**state.placements, task.task: placement}
            return replace(state, placements=placements, task_keys=max(state.task_keys, task.task + 1))
        case TopicsResetRecord(_, time_ms):
            return replace(state, topics_reset=-1 if time_ms is None else offset)
        case ConnectorLevelRecord(_, level, _):
            return replace(state, log_level=None if level is None else record)
        case TopicGrantRecord(_, patterns):
            return replace(state, topic_grant=None if patterns is None else record)
        case _:
            return state


def mark_unreadable(state: ClusterState, offset: int, connector: ConnectorName, reason: str) -> ClusterState:
    """As `Fold.mark_unreadable`."""
    folding = Fold(state)
    folding.mark_unreadable(offset, connector, reason)
    return folding.state


def task_ids(state: ConnectorState) -> list[TaskId]:
    """The newest generation's tasks."""
    return [TaskId(state.name, n) for n in range(state.commit.tasks if state.commit else 0)]
