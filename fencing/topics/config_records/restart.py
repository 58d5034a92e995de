"""`restart-connector-<c>`: a request to restart, as Kafka Connect 3.0 and later write it (KIP-745)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_record import ConfigRecord, Fields

if TYPE_CHECKING:
    from ringfence.fencing.topics.cluster_state import Fold


@dataclass(frozen=True, slots=True)
class RestartRecord(ConfigRecord):
    """include_tasks: restart the tasks, too; only_failed: restart only the instances that have failed."""

    connector: ConnectorName
    include_tasks: bool
    only_failed: bool

    PREFIXES = ("restart-connector-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "RestartRecord | None":
        if not rest or value is None:
            return None
        return cls(ConnectorName(rest), bool(value.get("include-tasks")), bool(value.get("only-failed")))

    @classmethod
    def connector_in(cls, rest: str) -> ConnectorName | None:
        return ConnectorName(rest) if rest else None

    def to_key(self) -> str:
        return f"restart-connector-{self.connector}"

    def to_value(self) -> Fields:
        return {"include-tasks": self.include_tasks, "only-failed": self.only_failed}

    def apply(self, cluster: "Fold", offset: int) -> None:
        cluster.restarts[self.connector] = (offset, self)
