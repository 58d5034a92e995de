"""`status-connector-<c>`: the state of a connector."""

from dataclasses import dataclass

from ringfence.fencing.ids import ConnectorName, Generation, WorkerId
from ringfence.fencing.topics.status_entry import Fields, State, StatusEntry, StatusFold, parse_number, parse_text


@dataclass(frozen=True, slots=True)
class ConnectorStatus(StatusEntry):
    """generation: -1 if it is unknown; version: the plugin's."""

    connector: ConnectorName
    state: State
    worker: WorkerId
    generation: Generation
    trace: str | None = None
    version: str | None = None

    PREFIX = "status-connector-"

    @classmethod
    def parse(cls, rest: str, value: Fields) -> "ConnectorStatus":
        worker, generation = WorkerId(str(value["worker_id"])), Generation(parse_number(value, "generation"))
        trace, version = parse_text(value, "trace"), parse_text(value, "version")
        return cls(ConnectorName(rest), State(str(value["state"])), worker, generation, trace, version)

    def to_key(self) -> str:
        return f"{self.PREFIX}{self.connector}"

    def to_value(self) -> Fields:
        return {
            "state": self.state,
            "trace": self.trace,
            "worker_id": self.worker,
            "generation": self.generation,
            "version": self.version,
        }

    def apply_to(self, fold: StatusFold) -> None:
        fold.set_connector(self)

    @classmethod
    def remove(cls, rest: str, fold: StatusFold) -> None:
        fold.remove_connector(ConnectorName(rest))
