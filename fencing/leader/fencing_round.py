"""Fencing rounds (KIP-618, "Zombie fencing"): before a generation starts, no older one can commit.

A round is pending while the count record's generation differs from the newest commit's. It fences every id 0..n-1 of
the old count, without exception: the KIP's shortcut (one task before and after) would miss a stop with an offset reset.
`plan` and `finish` are pure; the fencing between them is one call that is safe to repeat.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ringfence.fencing.errors import Conflict
from ringfence.fencing.ids import ConnectorName, Generation, TaskId, task_transactional_id
from ringfence.fencing.leader.fence_targets import place_of, target_of, without_secrets
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import ConfigRecord, TaskCountRecord
from ringfence.fencing.topics.connector_state import ConnectorState


@dataclass(frozen=True, slots=True)
class Round:
    """The work of a round: fence `ids` at `target`, then write that `generation` may start.

    target: where the old generation wrote (`fencing.leader.fence_generation`), None if unknown: Kafka Connect wrote the
    count record, or there is none. writes: where the new one will write, for the new count record. elsewhere: whether
    any generation of this name had offsets outside of the worker's topic.
    """

    connector: ConnectorName
    generation: Generation
    ids: Sequence[str]
    tasks: int
    target: Mapping[str, str] | None = field(repr=False)
    writes: Mapping[str, str] = field(repr=False)
    elsewhere: bool | None = None


def plan(state: ConnectorState, group_id: str) -> Round | None:
    """Return the pending round of this connector, or None.

    A generation with tasks waits while its connector cannot be read: its configuration says where it writes, which the
    count record must contain.
    """
    if not state.round_pending or state.commit is None or (state.unreadable is not None and state.commit.tasks):
        return None
    old = state.count.tasks if state.count else 0
    ids = [task_transactional_id(group_id, TaskId(state.name, task)) for task in range(old)]
    is_known = state.count is not None and state.count.generation is not None
    target = dict(state.count.target) if state.count is not None and is_known else None
    # A deleted connector's offsets stay where they are, for a connector that is created with its name.
    writes = without_secrets(target or {}) if state.config is None else target_of(state.config)
    return Round(
        state.name, state.commit.generation, ids, state.commit.tasks, target, writes, _is_elsewhere(state, writes)
    )


def _is_elsewhere(state: ConnectorState, writes: Mapping[str, str]) -> bool | None:
    """Return whether the offsets of this name are, or ever were, outside of the worker's topic; None: unknown."""
    if place_of(writes):
        return True
    return state.count.elsewhere if state.count is not None else False


def finish(round_: Round, state: ClusterState) -> list[ConfigRecord]:
    """Return the count records that end a round, for the state at the end of the config topic after the fence.

    Raises `Conflict` if there is a newer generation by now: its own round fences all, and this one is void.
    """
    connector = state.connector(round_.connector)
    if connector.generation != round_.generation:
        raise Conflict(f"Connector {round_.connector} has a newer generation than {round_.generation}")
    if not connector.round_pending:
        return []
    # Kafka Connect's own record first: the newest offset wins, and only ours names the generation.
    return [
        TaskCountRecord(round_.connector, round_.tasks, None),
        TaskCountRecord(round_.connector, round_.tasks, round_.generation, round_.writes, round_.elsewhere),
    ]


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
