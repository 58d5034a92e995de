"""States of a cluster, folded from records of the config topic."""

from collections.abc import Iterable

from hypothesis import strategies as st

from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    PlacementRecord,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
)
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState

C = ConnectorName("c")


W, I = WorkerId("w"), Incarnation("i")  # noqa: E741


def config(**settings: str) -> ConnectorRecord:
    return ConnectorRecord(C, settings)


def tasks(count: int) -> list[ConfigRecord]:
    return [*(TaskRecord(TaskId(C, n), {"n": str(n)}) for n in range(count)), CommitRecord(C, count)]


def place(task: int, attempt: int, generation: int) -> PlacementRecord:
    return PlacementRecord(TaskId(C, task), W, I, attempt, Generation(generation))


def fold(records: Iterable[ConfigRecord | None], state: ClusterState | None = None) -> ClusterState:
    """Records at the offsets 0, 1, 2, ...; None is an offset that holds a marker, or was compacted away."""
    state = state or ClusterState()
    for offset, record in enumerate(records, state.end):
        if record is not None:
            state = apply(state, offset, record)
    return state


def c(*records: ConfigRecord | None) -> ConnectorState:
    return fold(records).connector(C)


task_sets = st.integers(0, 3).map(tasks)


histories = st.lists(
    st.one_of(
        task_sets,
        st.tuples(st.just(config(v="1")), task_sets).map(lambda pair: [pair[0], *pair[1]]),
        st.just([config(v="2")]),
        st.sampled_from([*TargetState, None]).map(lambda target: [TargetStateRecord(C, target)]),
        st.integers(0, 30).map(lambda g: [TaskCountRecord(C, 2, None), TaskCountRecord(C, 2, Generation(g))]),
        st.just([TaskCountRecord(C, 2, None)]),
        st.builds(lambda n, a, g: [place(n, a, g)], st.integers(0, 2), st.integers(1, 3), st.integers(0, 30)),
        st.just([CommitRecord(C, 0), TargetStateRecord(C, None), ConnectorRecord(C, None)]),
    ),
    max_size=12,
).map(lambda parts: [record for part in parts for record in part])


def verdicts(state: ConnectorState) -> object:
    newest = state.placements.items() if state.startable else ()
    runs = {n: placement for n, placement in newest if state.may_run(n, placement)}
    return state.config, state.generation, state.round_pending, state.startable, state.count, state.target, runs
