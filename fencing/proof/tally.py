"""The counts of a proof, which its checks judge. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ringfence.fencing.proof.offset_commits import OffsetCommits
from ringfence.fencing.proof.topic_tally import Producer, TopicTally


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
