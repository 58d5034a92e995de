"""The outcome of a plan."""

from dataclasses import dataclass

from ringfence.fencing.topics.cluster_state import ClusterState


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The state after the write, and the offset of its last record; -1 if there was nothing to write."""

    state: ClusterState
    offset: int
