"""The state that the config topic describes, as pure data. `Fold` applies records (KIP-618, "Task count records").

Every reader (leader, worker, task, projection) applies the same records with this code, so all of them agree on
generations, on pending rounds and on which attempts may run.
"""

from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace

from ringfence.fencing.ids import ConnectorName, Incarnation, WorkerId
from ringfence.fencing.request_context import RequestContext
from ringfence.fencing.topics.changes import History, SharedMap, compare, extend, names_between
from ringfence.fencing.topics.config_record import ConfigRecord, ConnectorScopedRecord
from ringfence.fencing.topics.config_records import RestartRecord, SessionKeyRecord
from ringfence.fencing.topics.config_records.format import UNWRITTEN, FormatRecord
from ringfence.fencing.topics.connector_state import ConnectorState, TaskConfig
from ringfence.fencing.topics.topic_ids import TopicIds


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The state of the whole config topic up to, but not including, `end`."""

    end: int = 0
    connectors: Mapping[ConnectorName, ConnectorState] = field(default_factory=dict)
    session_key: SessionKeyRecord | None = None
    restarts: Mapping[ConnectorName, tuple[int, RestartRecord]] = field(default_factory=dict)
    loggers: Mapping[str, tuple[int, str | None]] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()
    drains: Mapping[WorkerId, Incarnation] = field(default_factory=dict)
    """Drained workers, which get no tasks: only in this incarnation, so a restart ends it."""
    topic_ids: TopicIds | None = None
    format: FormatRecord = UNWRITTEN
    """Which versions may take part."""
    history: History[ConnectorName] = field(default=(), init=False, repr=False, compare=False)
    """See `changes_since`. A state that no `Fold` has made has none."""

    def connector(self, name: ConnectorName) -> ConnectorState:
        """Return the connector's state; an empty one if the topic says nothing about it."""
        return self.connectors.get(name) or ConnectorState(name)

    def existing(self) -> Iterator[ConnectorState]:
        """Return the connectors that have a configuration."""
        return (state for state in self.connectors.values() if state.config is not None)

    def __contains__(self, name: ConnectorName) -> bool:
        state = self.connectors.get(name)
        return state is not None and state.config is not None

    def changes_since(self, before: "ClusterState") -> Set[ConnectorName]:
        """Return the connectors whose state may be another object than `before`: all that are, and few others."""
        if self.connectors is before.connectors:
            return frozenset()
        names = names_between(before.history, self.history)
        return compare(before.connectors, self.connectors) if names is None else names

    def part(self, names: Collection[ConnectorName]) -> "ClusterState":
        """Return the same state as if the topic said nothing about other connectors than these."""
        return replace(self, connectors={name: self.connectors[name] for name in names if name in self.connectors})


class Fold:
    """Applies many records. It changes copies of the state's maps in place, so each record costs the same.

    `state` is an immutable snapshot, which may be passed to other threads.
    """

    def __init__(self, state: ClusterState) -> None:
        self._end = state.end
        self._connectors = SharedMap(state.connectors)
        self._history = state.history
        self._changes: set[ConnectorName] = set()
        self.session_key = state.session_key
        self.restarts = dict(state.restarts)
        self.loggers = dict(state.loggers)
        self.unknown = set(state.unknown)
        self.drains = dict(state.drains)
        self.topic_ids = state.topic_ids
        self.format = state.format
        self._own: dict[ConnectorName, dict[int, TaskConfig]] = {}

    @property
    def state(self) -> ClusterState:
        self._own.clear()  # they are the snapshot's now
        self._history = extend(self._history, self._changes)
        self._changes.clear()
        state = ClusterState(
            self._end,
            self._connectors.share(),
            self.session_key,
            dict(self.restarts),
            dict(self.loggers),
            frozenset(self.unknown),
            dict(self.drains),
            self.topic_ids,
            self.format,
        )
        object.__setattr__(state, "history", self._history)  # no argument, so that `replace` does not copy it
        return state

    def connector(self, name: ConnectorName) -> ConnectorState:
        """As `ClusterState.connector`."""
        return self._connectors.get(name) or ConnectorState(name)

    def pending_of(self, connector: ConnectorState) -> dict[int, TaskConfig]:
        """Return the connector's pending tasks as a map that nobody else has, so it may be changed in place: a copy
        for each record of a long set would take its number of tasks squared.
        """
        own = self._own.get(connector.name)
        if own is None or own is not connector.pending:
            own = self._own[connector.name] = dict(connector.pending)
        return own

    def set(self, connector: ConnectorState) -> None:
        """Set the connector's new state, or remove it if the topic no longer says anything about it."""
        self._changes.add(connector.name)
        if connector.is_blank:
            self._connectors.own().pop(connector.name, None)
        else:
            self._connectors.own()[connector.name] = connector

    def apply(self, offset: int, record: ConfigRecord) -> None:
        """Apply one more record. Call it in the order of offsets, for committed records only."""
        self._end = offset + 1
        record.apply(self, offset)

    def note_request(self, name: ConnectorName, request: RequestContext) -> None:
        """Note the request that the connector's last record was written for."""
        connector = self._connectors.get(name)
        if connector is not None and connector.request != request:
            self._changes.add(name)
            self._connectors.own()[name] = replace(connector, request=request)

    def forget_session_key(self, offset: int) -> None:
        """Treat an unreadable session key as if there were none."""
        self._end = offset + 1
        self.session_key = None

    def mark_unreadable(self, offset: int, connector: ConnectorName, reason: str) -> None:
        """Note a value that cannot be read, of a connector that its key names. That connector stops; the others
        continue.
        """
        self._end = offset + 1
        self.set(replace(self.connector(connector), unreadable=reason))


def apply(state: ClusterState, offset: int, record: ConfigRecord) -> ClusterState:
    """Return the state after one more record. For many records, see `Fold`."""
    folding = Fold(state)
    folding.apply(offset, record)
    return folding.state


def apply_connector(state: ConnectorState, offset: int, record: ConfigRecord) -> ConnectorState:
    """Return a connector's state after one more record; unchanged if the record concerns something else."""
    return record.apply_to(state, offset) if isinstance(record, ConnectorScopedRecord) else state


def mark_unreadable(state: ClusterState, offset: int, connector: ConnectorName, reason: str) -> ClusterState:
    """As `Fold.mark_unreadable`."""
    folding = Fold(state)
    folding.mark_unreadable(offset, connector, reason)
    return folding.state
