"""Rounds that finish together, in one transaction. Pure."""

from collections.abc import Mapping, Sequence

from ringfence.fencing.errors import Conflict
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.leader.fencing_round import Round, finish
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import ConfigRecord


def finish_all(
    rounds: Sequence[Round], state: ClusterState
) -> tuple[list[ConfigRecord], Mapping[ConnectorName, Conflict]]:
    """Return the records that finish these rounds in one transaction, and the void rounds with their reasons."""
    records: list[ConfigRecord] = []
    void: dict[ConnectorName, Conflict] = {}
    for round_ in rounds:
        try:
            records += finish(round_, state)
        except Conflict as error:
            void[round_.connector] = error
    return records, void
