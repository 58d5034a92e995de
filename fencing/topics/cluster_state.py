"""What the config topic says, as pure data: `Fold(state)` takes records in (KIP-618, "Task count records").

Every reader (leader, worker, task, projection) folds the same records with this one function, so all of them agree
on generations, on which rounds are pending and on who may run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ringfence.fencing.ids import ConnectorName, Incarnation, WorkerId
from ringfence.fencing.topics.config_record import ConfigRecord, ConnectorScopedRecord
from ringfence.fencing.topics.config_records import RestartRecord, SessionKeyRecord
from ringfence.fencing.topics.connector_state import ConnectorState
from ringfence.fencing.topics.topic_ids import TopicIds


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
        self.session_key = state.session_key
        self.restarts = dict(state.restarts)
        self.loggers = dict(state.loggers)
        self.unknown = set(state.unknown)
        self.drained = dict(state.drained)
        self.topic_ids = state.topic_ids

    @property
    def state(self) -> ClusterState:
        return ClusterState(
            self._end,
            dict(self._connectors),
            self.session_key,
            dict(self.restarts),
            dict(self.loggers),
            frozenset(self.unknown),
            dict(self.drained),
            self.topic_ids,
        )

    def connector(self, name: ConnectorName) -> ConnectorState:
        """As `ClusterState.connector`."""
        return self._connectors.get(name) or ConnectorState(name)

    def set(self, connector: ConnectorState) -> None:
        """The connector's new state; one of which the topic says nothing any more is left out."""
        if connector.is_blank:
            self._connectors.pop(connector.name, None)
        else:
            self._connectors[connector.name] = connector

    def apply(self, offset: int, record: ConfigRecord) -> None:
        """One more record. They must come in the order of their offsets, committed ones only."""
        self._end = offset + 1
        record.apply(self, offset)

    def forget_session_key(self, offset: int) -> None:
        """It cannot be read: as if there were none."""
        self._end = offset + 1
        self.session_key = None

    def mark_unreadable(self, offset: int, connector: ConnectorName, reason: str) -> None:
        """A value under a readable connector name could not be read: that connector stops, the rest goes on."""
        self._end = offset + 1
        self.set(replace(self.connector(connector), unreadable=reason))


def apply(state: ClusterState, offset: int, record: ConfigRecord) -> ClusterState:
    """The state after one more record; for many records, see `Fold`."""
    folding = Fold(state)
    folding.apply(offset, record)
    return folding.state


def apply_connector(state: ConnectorState, offset: int, record: ConfigRecord) -> ConnectorState:
    """One connector's state after one more record; the same one after a record of something else."""
    return record.apply_to(state, offset) if isinstance(record, ConnectorScopedRecord) else state


def mark_unreadable(state: ClusterState, offset: int, connector: ConnectorName, reason: str) -> ClusterState:
    """As `Fold.mark_unreadable`."""
    folding = Fold(state)
    folding.mark_unreadable(offset, connector, reason)
    return folding.state
