"""`leader`: which worker is the leader, for people to see. No decision depends on it."""

from dataclasses import dataclass

from ringfence.fencing.ids import Incarnation, WorkerId
from ringfence.fencing.topics.status_entry import Fields, StatusEntry, StatusFold, parse_number


@dataclass(frozen=True, slots=True)
class LeaderRecord(StatusEntry):
    """group_generation: of the workers' group; topic_tracking: whether active topics are tracked (KIP-558)."""

    worker: WorkerId
    incarnation: Incarnation
    group_generation: int
    since_ms: int
    topic_tracking: bool = True

    PREFIX = "leader"

    @classmethod
    def parse(cls, rest: str, value: Fields) -> "LeaderRecord | None":
        if rest:
            return None
        return cls(
            WorkerId(str(value["worker_id"])),
            Incarnation(str(value["incarnation"])),
            parse_number(value, "group_generation"),
            parse_number(value, "since_ms", 0),
            value.get("topic_tracking") is not False,
        )

    def to_key(self) -> str:
        return self.PREFIX

    def to_value(self) -> Fields:
        return {
            "worker_id": self.worker,
            "incarnation": self.incarnation,
            "group_generation": self.group_generation,
            "since_ms": self.since_ms,
            "topic_tracking": self.topic_tracking,
        }

    def apply_to(self, fold: StatusFold) -> None:
        fold.leader = self

    @classmethod
    def remove(cls, rest: str, fold: StatusFold) -> None:
        if not rest:
            fold.leader = None
