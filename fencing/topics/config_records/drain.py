"""`drain-worker-<id>`: a worker is drained, so it gets no tasks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringfence.fencing.ids import Incarnation, WorkerId
from ringfence.fencing.topics.config_record import ConfigRecord, Fields, parse_integer

if TYPE_CHECKING:
    from ringfence.fencing.topics.cluster_state import Fold


@dataclass(frozen=True, slots=True)
class DrainRecord(ConfigRecord):
    """incarnation: the one that gets no tasks; None is a tombstone, which ends the drain."""

    worker: WorkerId
    incarnation: Incarnation | None
    since_ms: int = 0

    PREFIXES = ("drain-worker-",)

    @classmethod
    def parse(cls, prefix: str, rest: str, value: Fields | None) -> "DrainRecord":
        worker = WorkerId(rest)
        if value is None:
            return cls(worker, None)
        return cls(worker, Incarnation(str(value["incarnation"])), parse_integer(value, "since_ms"))

    def to_key(self) -> str:
        return f"drain-worker-{self.worker}"

    def to_value(self) -> Fields | None:
        return None if self.incarnation is None else {"incarnation": self.incarnation, "since_ms": self.since_ms}

    def apply(self, cluster: "Fold", offset: int) -> None:
        cluster.drains.pop(self.worker, None)
        if self.incarnation is not None:
            cluster.drains[self.worker] = self.incarnation
