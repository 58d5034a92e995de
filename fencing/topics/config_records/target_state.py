"""`target-state-<c>`: the state that the user wants for a connector."""

from dataclasses import dataclass, replace

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_record import ConnectorScopedRecord, Fields
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState


@dataclass(frozen=True, slots=True)
class TargetStateRecord(ConnectorScopedRecord):
    """state: None is a tombstone, which means RUNNING if the connector is created again."""

    connector: ConnectorName
    state: TargetState | None

    PREFIXES = ("target-state-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "TargetStateRecord | None":
        if not rest:
            return None
        state = None if value is None else TargetState(str(value.get("state.v2") or value["state"]))
        return cls(ConnectorName(rest), state)

    @property
    def owner(self) -> ConnectorName:
        return self.connector

    def to_key(self) -> str:
        return f"target-state-{self.connector}"

    def to_value(self) -> Fields | None:
        # Readers before KIP-875 know only `state`, and for them a stopped connector is a paused one.
        before = TargetState.PAUSED if self.state is TargetState.STOPPED else self.state
        return None if self.state is None else {"state": before, "state.v2": self.state}

    def apply_to(self, state: ConnectorState, offset: int) -> ConnectorState:
        return replace(state, target=self.state or TargetState.RUNNING, target_offset=offset)
