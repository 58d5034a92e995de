"""What the config topic forgets of deleted connectors."""

from collections.abc import Sequence

from ringfence.connectors.api import Signal
from ringfence.engine.leader.commands.lifecycle import Delete
from ringfence.fencing.ids import ConnectorName, Generation, TaskId, WorkerId
from ringfence.fencing.leader.fencing_round import finish, plan
from ringfence.fencing.leader.reconcile import AT_ONCE, decide, find_forgettable, forget
from ringfence.fencing.topics.active_topics import TopicsResetRecord
from ringfence.fencing.topics.cluster_state import ClusterState, apply
from ringfence.fencing.topics.config_record import ConnectorScopedRecord
from ringfence.fencing.topics.config_records import (
    RECORD_TYPES,
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    PlacementRecord,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
    connector_of,
    decode,
    encode,
    tombstones_of,
)
from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.signals import SignalsRecord
from ringfence.fencing.topics.status import StatusState
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord
from ringfence.fencing.topics.topic_grants import TopicGrantRecord

C = ConnectorName("orders")
OWN = {"connector.class": "X", "offsets.storage.topic": "mine"}
PLAIN = {"connector.class": "X"}


def fold(state: ClusterState, *records: ConfigRecord) -> ClusterState:
    """Through bytes, as every reader sees them."""
    for record in records:
        state = apply(state, state.end, decode(*encode(record)))
    return state


def created(state: ClusterState, config: dict[str, str], tasks: int = 1, name: ConnectorName = C) -> ClusterState:
    """A configuration whose tasks are placed, its round done."""
    made = [TaskRecord(TaskId(name, n), config) for n in range(tasks)]
    state = with_round(fold(state, ConnectorRecord(name, config), *made, CommitRecord(name, tasks)), name)
    placed = [PlacementRecord(TaskId(name, n), WorkerId("w"), generation=Generation(1)) for n in range(tasks)]
    return fold(state, *placed)


def with_round(state: ClusterState, name: ConnectorName = C) -> ClusterState:
    due = plan(state.connector(name), "g")
    assert due is not None
    return fold(state, *finish(due, state))


def delete(state: ClusterState, name: ConnectorName = C) -> ClusterState:
    """Before the round."""
    return fold(state, CommitRecord(name, 0), TargetStateRecord(name, None), ConnectorRecord(name, None))


def test_nothing_is_left_of_a_deleted_connector() -> None:
    """Every key that was ever written for it gets a tombstone, also those of tasks of older generations."""
    state = with_round(delete(created(created(ClusterState(), PLAIN, 3), {**PLAIN, "a": "b"}, 1)))
    gone = forget(state)
    removed = {encode(record)[0] for record in gone}
    assert all(encode(record)[1] is None for record in gone)
    assert removed == {
        b"commit-orders",
        b"tasks-count-orders",
        b"tasks-fencing-orders",
        *(f"{kind}-orders-{n}".encode() for kind in ("task", "placement") for n in range(3)),
    }
    after = fold(state, *gone)
    assert C not in after.connectors
    assert forget(after) == []


def test_not_before_the_round_of_the_deletion_is_done() -> None:
    state = delete(created(ClusterState(), PLAIN))
    assert forget(state) == []
    assert forget(with_round(state))


def test_not_of_a_connector_that_exists() -> None:
    state = created(with_round(delete(created(ClusterState(), PLAIN))), PLAIN)
    assert forget(state) == []


def test_the_count_stays_where_the_offsets_were_ever_elsewhere() -> None:
    """A connector that is created again under the name has its offsets carried from there."""
    for configs in ([OWN], [OWN, PLAIN], [PLAIN, OWN]):
        state = ClusterState()
        for config in configs:
            state = created(state, config)
        state = with_round(delete(state))
        after = fold(state, *forget(state))
        assert b"tasks-count-orders" not in {encode(record)[0] for record in forget(state)}
        count = after.connector(C).count
        assert count is not None
        assert forget(after) == []
        again = fold(after, ConnectorRecord(C, PLAIN), TaskRecord(TaskId(C, 0), PLAIN), CommitRecord(C, 1))
        due = plan(again.connector(C), "g")
        assert due is not None
        assert due.target == count.target


def test_the_count_of_an_earlier_version_stays() -> None:
    """It does not say where older generations had their offsets."""
    state = created(ClusterState(), PLAIN)
    generation = state.connector(C).generation
    state = fold(state, TaskCountRecord(C, 1, generation, {}))
    state = with_round(delete(state))
    after = fold(state, *forget(state))
    assert after.connector(C).count is not None
    assert after.connector(C).commit is None


def test_a_name_that_is_used_again_begins_as_a_new_one() -> None:
    state = with_round(delete(created(ClusterState(), PLAIN)))
    after = fold(state, *forget(state))
    again = fold(after, ConnectorRecord(C, PLAIN), TaskRecord(TaskId(C, 0), PLAIN), CommitRecord(C, 1))
    due = plan(again.connector(C), "g")
    assert due is not None
    assert (list(due.ids), due.target) == ([], None)
    assert with_round(again).connector(C).runnable


def test_a_reader_between_two_of_the_tombstones_sees_no_round_that_is_due() -> None:
    state = with_round(delete(created(ClusterState(), PLAIN)))
    for record in forget(state):
        state = fold(state, record)
        assert plan(state.connector(C), "g") is None
        assert C not in state


def test_many_names_go_bit_by_bit() -> None:
    state = ClusterState()
    names = [ConnectorName(f"c{number}") for number in range(AT_ONCE + 10)]
    for name in names:
        state = with_round(delete(created(state, PLAIN, name=name), name), name)
    assert list(decide(state, _no_status(), [], "g", {}, 0.0).forgettable) == find_forgettable(state) == names[:AT_ONCE]
    state = fold(state, *forget(state))
    assert len(state.connectors) == 10
    assert not fold(state, *forget(state)).connectors


def test_many_tasks_go_bit_by_bit() -> None:
    """From the last one on: what is left says which are still to go, also for a leader that reads the topic anew."""
    state = with_round(delete(created(ClusterState(), PLAIN, 2 * AT_ONCE + 3)))
    seen: set[bytes] = set()
    for _ in range(3):
        records = forget(state)
        assert len(records) <= 2 * AT_ONCE + 3
        seen |= {encode(record)[0] for record in records}
        state = fold(state, *records)
    assert not state.connectors
    assert seen >= {f"{kind}-orders-{n}".encode() for kind in ("task", "placement") for n in range(2 * AT_ONCE + 3)}


def test_other_connectors_stay() -> None:
    other = ConnectorName("orders-1")
    state = with_round(delete(created(created(ClusterState(), PLAIN, name=other), PLAIN, 2)))
    assert {connector_of(encode(record)[0]) for record in forget(state)} == {C}
    assert fold(state, *forget(state)).connector(other) == state.connector(other)


def _no_status() -> StatusState:
    return StatusState()


KNOWN: Sequence[ConfigRecord] = (
    TopicsResetRecord(C, 5),
    ConnectorLevelRecord(C, "DEBUG", 5),
    TopicGrantRecord(C, (("orders.*",),), "ann"),
    SignalsRecord(C, (Signal(1, "kind", {}),)),
    SweepRequestRecord(C, (("id", 0, 1, 2),), 5),
)
"""One of each type that only a connector's deletion removes."""


def test_a_deletion_removes_each_of_a_connectors_records_or_the_step_behind_its_round() -> None:
    state = fold(created(ClusterState(), PLAIN), TargetStateRecord(C, TargetState.PAUSED), *KNOWN)
    of_a_connector = {type(record) for record in KNOWN} | {
        *(ConnectorRecord, TargetStateRecord, CommitRecord, TaskRecord, TaskCountRecord, PlacementRecord)
    }
    assert {cls for cls in RECORD_TYPES if issubclass(cls, ConnectorScopedRecord)} == of_a_connector, (
        "add an example of a new type here"
    )
    assert {type(record) for record in tombstones_of(state.connector(C))} == {type(record) for record in KNOWN}
    due = [record for record in Delete(C).records(state) if isinstance(record, ConfigRecord)]
    deleted = with_round(fold(state, *due))
    assert C not in fold(deleted, *forget(deleted)).connectors


def test_a_deletion_writes_no_tombstone_for_what_was_never_there() -> None:
    assert tombstones_of(created(ClusterState(), PLAIN).connector(C)) == []
