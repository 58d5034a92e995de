"""The results of probes: a principal's permissions on a cluster, and the holder of a transactional id."""

from dataclasses import dataclass
from enum import StrEnum


class Permission(StrEnum):
    """Whether a principal may do something."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class IdHolder:
    """The coordinator's description of a transactional id. state: Kafka's name; "" if the id is unknown."""

    state: str = ""
    producer_id: int = -1
    epoch: int = -1

    @property
    def open(self) -> bool:
        """Whether a transaction is open, or is ending."""
        return self.state in ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True)
class TopicRights:
    """A topic as a principal sees it. exists: None if the principal may not know.

    replicas: the maximum over its partitions; 0 if unknown.
    """

    exists: bool | None
    read: Permission = Permission.UNKNOWN
    write: Permission = Permission.UNKNOWN
    describe: Permission = Permission.UNKNOWN
    replicas: int = 0
