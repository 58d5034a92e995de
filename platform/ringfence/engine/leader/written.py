"""The outcome of a plan."""

from dataclasses import dataclass

from ringfence.fencing.topics.cluster_state import ClusterState


@dataclass(frozen=True, slots=True)
class Written:
    """The state with it, and the offset of its last record, -1 where nothing was due."""

    state: ClusterState
    offset: int
