"""The counts of a proof, which its checks judge. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ringfence.fencing.proof.offset_commits import OffsetCommits
from ringfence.fencing.proof.topic_tally import Producer, TopicTally


class Result(StrEnum):
    """UNKNOWN: it cannot be counted, and the message says why. NOTE: it is not a fault of the connector."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Check:
    """One claim. remedy: what to do about it, "" if there is nothing to do."""

    name: str
    result: Result
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class ProofTally:
    """The counts of a proof. records: by topic; letters: those of the connector's dead letter queue, if it has one.

    ids: the producer ids of the connector's transactional ids, from the coordinators; None without the permission.
    deletions: what retention or compaction has deleted, for messages.
    """

    commits: OffsetCommits
    records: Mapping[str, TopicTally]
    letters: Mapping[str, TopicTally] = field(default_factory=dict)
    ids: frozenset[int] | None = None
    deletions: Sequence[str] = ()

    def own(self, who: Producer) -> bool:
        """Return whether it is a producer of the connector's tasks."""
        return who in self.commits.producers or (self.ids is not None and who.producer_id in self.ids)
