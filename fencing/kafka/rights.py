"""What a principal may do on a cluster, and who holds a transactional id, as far as a probe could see."""

from dataclasses import dataclass
from enum import StrEnum


class Permission(StrEnum):
    """Whether a principal may do something."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class IdHolder:
    """What the coordinator knows of a transactional id. `state` as Kafka names it; "" where it knows nothing."""

    state: str = ""
    producer_id: int = -1
    epoch: int = -1

    @property
    def open(self) -> bool:
        """A transaction is open, or is being ended."""
        return self.state in ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True)
class TopicRights:
    """A topic as a principal sees it. `exists` is None where the principal may not even know.

    replicas: of the partition that has most; 0 where that is not known.
    """

    exists: bool | None
    read: Permission = Permission.UNKNOWN
    write: Permission = Permission.UNKNOWN
    describe: Permission = Permission.UNKNOWN
    replicas: int = 0
