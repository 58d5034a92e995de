"""`worker-<id>`: a worker's description of itself. Its incarnation identifies it among the members of the group."""

from dataclasses import dataclass

from ringfence.fencing.ids import Incarnation, WorkerId
from ringfence.fencing.topics.status_entry import Fields, StatusEntry, StatusFold, parse_number


@dataclass(frozen=True, slots=True)
class WorkerRecord(StatusEntry):
    """away_until_ms: until then it counts as alive although it left the group, to hand over the leadership.

    process: which process of which machine it is, for other workers there; "" if that is not known; format: see
    `config_records.format`.
    """

    worker: WorkerId
    incarnation: Incarnation
    mode: str
    slots: int
    version: str
    since_ms: int
    away_until_ms: int = 0
    process: str = ""
    format: int = 1

    PREFIX = "worker-"

    @classmethod
    def parse(cls, rest: str, value: Fields) -> "WorkerRecord":
        return cls(
            WorkerId(rest),
            Incarnation(str(value["incarnation"])),
            str(value.get("mode", "enabled")),
            parse_number(value, "slots", 0),
            str(value.get("version", "")),
            parse_number(value, "since_ms", 0),
            parse_number(value, "away_until_ms", 0),
            str(value.get("process", "")),
            parse_number(value, "format", 1),
        )

    def to_key(self) -> str:
        return f"{self.PREFIX}{self.worker}"

    def to_value(self) -> Fields:
        value: dict[str, object] = {
            "incarnation": self.incarnation,
            "mode": self.mode,
            "slots": self.slots,
            "version": self.version,
            "since_ms": self.since_ms,
            "format": self.format,
        }
        if self.process:
            value["process"] = self.process
        return {**value, "away_until_ms": self.away_until_ms} if self.away_until_ms else value

    def apply_to(self, fold: StatusFold) -> None:
        fold.workers[self.worker] = self

    @classmethod
    def remove(cls, rest: str, fold: StatusFold) -> None:
        fold.workers.pop(WorkerId(rest), None)
