"""The outcome of a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ringfence.fencing.topics.cluster_state import ClusterState


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The state after the write, and the offset of its last record; -1 if there was nothing to write.

    stages: what it consisted of, see `fencing.stages`.
    """

    state: ClusterState
    offset: int
    stages: Mapping[str, float] = field(default_factory=dict)
