"""What tests of the leader's decisions share: workers, statuses, and what is due."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ringfence.fencing.ids import Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.leader.next_placement import REBALANCE_DELAY, LiveWorker, Place
from ringfence.fencing.leader.reconcile import Steps, decide
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import (
    ConfigRecord,
    PlacementRecord,
    TaskCountRecord,
)
from ringfence.fencing.topics.status import State, StatusState, TaskStatus
from tests.support.cluster_states import C, config, fold, tasks

A = LiveWorker(WorkerId("a"), Incarnation("a1"), 4)


B = LiveWorker(WorkerId("b"), Incarnation("b1"), 4)


T0, T1 = TaskId(C, 0), TaskId(C, 1)


def running(count: int) -> list[ConfigRecord]:
    """A connector whose round is over."""
    return [config(), *tasks(count), TaskCountRecord(C, count, Generation(count + 1))]


def on(member: LiveWorker, task: int, attempt: int = 1, generation: int = 2) -> PlacementRecord:
    return PlacementRecord(TaskId(C, task), member.worker, member.incarnation, attempt, Generation(generation))


def said(
    placement: PlacementRecord, state: State = State.RUNNING, why: str = "", ended: bool = False
) -> Mapping[TaskId, TaskStatus]:
    assert placement.worker is not None
    status = TaskStatus(
        placement.task,
        state,
        placement.worker,
        placement.generation,
        placement.attempt,
        placement.incarnation,
        ended=ended,
        why=why,
    )
    return {placement.task: status}


def due(
    records: Sequence[ConfigRecord] | ClusterState,
    members: Sequence[LiveWorker] = (A, B),
    status: Mapping[TaskId, TaskStatus] | None = None,
    not_before: Mapping[TaskId, float] | None = None,
    now: float = 100.0,
    now_ms: int = 0,
    held_until: Mapping[Place, float] | None = None,
) -> Steps:
    state = records if isinstance(records, ClusterState) else fold(records)
    steps = decide(
        state,
        StatusState(tasks=status or {}),
        members,
        "g",
        not_before or {},
        now,
        now_ms=now_ms,
        settings={"auto.restart.max.attempts": "2", **({REBALANCE_DELAY: "30000"} if held_until else {})},
        held_until=held_until,
    )
    return replace(steps, placements=[replace(record, placed_ms=0) for record in steps.placements])


NOTHING = Steps([], [], [], [])
