"""What has changed between two versions of a state is known without a look at all of it."""

from dataclasses import replace
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.request_context import RequestContext
from ringfence.fencing.topics import status as statuses
from ringfence.fencing.topics.changes import compare, names_between
from ringfence.fencing.topics.cluster_state import ClusterState, Fold
from ringfence.fencing.topics.config_records import CommitRecord, ConnectorRecord, TargetStateRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.fencing.topics.status import (
    ConnectorStatus,
    State,
    StatusRecord,
    StatusState,
    StatusTombstone,
    TaskStatus,
    TopicStatus,
)

A = ConnectorName("a")
names = st.sampled_from([ConnectorName(name) for name in "abcdef"])
W, I = WorkerId("w"), Incarnation("i")  # noqa: E741
FAR: Final = 70
"""More folds than a history keeps."""

steps = st.tuples(names, st.sampled_from(["configure", "delete", "damage", "request"]))
reports = st.one_of(
    names.map(lambda name: ConnectorStatus(name, State.RUNNING, W, Generation(1))),
    names.map(lambda name: StatusTombstone(f"status-connector-{name}")),
    names.map(lambda name: TopicStatus(name, "t", 0, 1)),
    names.map(lambda name: StatusTombstone(f"status-topic-t:connector-{name}")),
    st.builds(
        lambda name, number, attempt: TaskStatus(TaskId(name, number), State.RUNNING, W, Generation(1), attempt, I),
        names,
        st.integers(0, 2),
        st.integers(1, 3),
    ),
    st.builds(lambda name, number: StatusTombstone(f"status-task-{name}-{number}"), names, st.integers(0, 2)),
)
parents = st.integers(0, 10)


def change(state: ClusterState, steps: list[tuple[ConnectorName, str]]) -> ClusterState:
    folding = Fold(state)
    for name, step in steps:
        end = folding.state.end
        match step:
            case "configure":
                folding.apply(end, ConnectorRecord(name, {"v": "1"}))
            case "delete":
                folding.apply(end, ConnectorRecord(name, None))
            case "damage":
                folding.mark_unreadable(end, name, "damaged")
            case _:
                folding.note_request(name, RequestContext(str(end)))
    return folding.state


@given(st.lists(st.tuples(parents, st.lists(steps, max_size=4)), max_size=10))
def test_states_tell_how_they_differ(versions: list[tuple[int, list[tuple[ConnectorName, str]]]]) -> None:
    """A version may be made of any earlier one, as a reader does that is ahead of an open transaction."""
    states = [ClusterState()]
    for parent, changes in versions:
        states.append(change(states[parent % len(states)], changes))
    for one in states:
        for other in states:
            differences = compare(one.connectors, other.connectors)
            assert differences <= other.changes_since(one)
            assert other.changes_since(other) == set()


@given(st.lists(st.tuples(parents, st.lists(reports, max_size=4)), max_size=10))
def test_statuses_tell_how_they_differ(versions: list[tuple[int, list[StatusRecord]]]) -> None:
    states = [StatusState()]
    for parent, records in versions:
        states.append(statuses.fold(states[parent % len(states)], records))
    for other in states:
        assert other.numbers == replace(other).numbers, "kept, and counted anew"
        for one in states:
            tasks = compare(one.tasks, other.tasks)
            differences = compare(one.connectors, other.connectors) | compare(one.topics, other.topics)
            assert differences | {task.connector for task in tasks} <= other.changes_since(one)


def test_a_small_change_among_many_is_all_that_is_told() -> None:
    many = change(ClusterState(), [(ConnectorName(str(number)), "configure") for number in range(2_000)])
    one = change(many, [(A, "configure")])
    assert one.changes_since(many) == {A}
    assert many.changes_since(one) == {A}
    other = change(many, [(ConnectorName("7"), "delete")])
    assert other.changes_since(one) == {A, "7"}


def test_a_reader_that_is_far_behind_compares_all() -> None:
    first = state = change(ClusterState(), [(A, "configure"), (ConnectorName("b"), "configure")])
    for _ in range(FAR):
        state = change(state, [(A, "configure")])
    assert names_between(first.history, state.history) is None
    assert len(state.history) < FAR
    assert state.changes_since(first) == {A}


def test_a_state_that_was_made_otherwise_has_no_history() -> None:
    state = change(ClusterState(), [(A, "configure")])
    copy = replace(state, connectors={})
    assert copy.changes_since(state) == {A}
    assert state.part([]).changes_since(state) == {A}


def test_a_state_that_was_passed_on_does_not_change() -> None:
    folding = Fold(ClusterState())
    folding.apply(0, ConnectorRecord(A, {"v": "1"}))
    first = folding.state
    folding.apply(1, CommitRecord(A, 0))
    second = folding.state
    folding.apply(2, TargetStateRecord(A, TargetState.PAUSED))
    assert first.connector(A).commit is None
    assert second.connector(A).target is TargetState.RUNNING
    assert folding.state.changes_since(first) == {A}


def test_parts_say_nothing_about_others() -> None:
    state = change(ClusterState(), [(A, "configure"), (ConnectorName("b"), "configure")])
    assert list(state.part([A, ConnectorName("x")]).connectors) == [A]
    reports: list[StatusRecord] = []
    for name in (A, ConnectorName("b")):
        reports += [ConnectorStatus(name, State.RUNNING, W, Generation(1)), TopicStatus(name, "t", 0, 1)]
        reports += [TaskStatus(TaskId(name, number), State.RUNNING, W, Generation(1), 1, I) for number in range(2)]
    part = statuses.fold(StatusState(), reports).part([A, ConnectorName("x")])
    assert (list(part.connectors), list(part.topics)) == ([A], [A])
    assert sorted(part.tasks) == [TaskId(A, 0), TaskId(A, 1)]
