"""Placement: spread evenly, move little, respect slots."""

from collections import Counter
from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.leader.next_placement import (
    Candidate,
    LiveWorker,
    Place,
    PlacementStep,
    are_settled,
    assign,
    reassign,
)

Where = dict[TaskId, tuple[WorkerId, Incarnation]]

members = st.lists(
    st.builds(
        LiveWorker, st.sampled_from("uvwxyz").map(WorkerId), st.sampled_from("12").map(Incarnation), st.integers(0, 5)
    ),
    max_size=5,
    unique_by=lambda member: (member.worker, member.incarnation),
)
members_with_reserve = st.lists(
    st.builds(
        LiveWorker,
        st.sampled_from("uvwxyz").map(WorkerId),
        st.sampled_from("12").map(Incarnation),
        st.integers(0, 4),
        reserve=st.integers(0, 3),
    ),
    max_size=5,
    unique_by=lambda member: (member.worker, member.incarnation),
)
task_ids = st.builds(TaskId, st.sampled_from("ab").map(ConnectorName), st.integers(0, 5))
tasks = st.lists(task_ids, max_size=12, unique=True)
places = st.tuples(st.sampled_from("uvwxyz").map(WorkerId), st.sampled_from("12").map(Incarnation))
current = st.dictionaries(task_ids, places)


def where(placed: dict[TaskId, LiveWorker]) -> Where:
    return {task: (member.worker, member.incarnation) for task, member in placed.items()}


def loads(members: Sequence[LiveWorker], placed: dict[TaskId, LiveWorker]) -> dict[LiveWorker, int]:
    counted = Counter(placed.values())
    return {member: counted[member] for member in members}


@given(members, tasks, current)
def test_no_worker_gets_more_than_its_slots_and_every_slot_is_used_before_a_task_is_left_out(
    members: list[LiveWorker], tasks: list[TaskId], current: Where
) -> None:
    placed = assign(members, tasks, current)
    assert set(placed) <= set(tasks)
    assert all(load <= member.slots for member, load in loads(members, placed).items())
    assert len(placed) == min(len(tasks), sum(member.slots for member in members))


@given(members_with_reserve, tasks, current)
def test_reserves_are_for_what_finds_no_slot_and_all_are_used_before_a_task_is_left_out(
    members: list[LiveWorker], tasks: list[TaskId], current: Where
) -> None:
    placed = assign(members, tasks, current)
    load = loads(members, placed)
    assert all(count <= member.slots + member.reserve for member, count in load.items())
    assert len(placed) == min(len(tasks), sum(member.slots + member.reserve for member in members))
    stays = Counter(place for task, place in where(placed).items() if current.get(task) == place)
    for member, count in load.items():
        if count > max(member.slots, stays[member.worker, member.incarnation]):
            assert all(others >= other.slots for other, others in load.items()), "something new went to a reserve"
    assert assign(members, tasks, where(placed)) == placed


@given(members, tasks, current)
def test_no_worker_with_a_free_slot_has_two_tasks_less_than_another(
    members: list[LiveWorker], tasks: list[TaskId], current: Where
) -> None:
    load = loads(members, assign(members, tasks, current))
    free = [count for member, count in load.items() if count < member.slots]
    assert not free or max(load.values()) - min(free) <= 1


@given(members, tasks, current)
def test_what_is_placed_well_stays(members: list[LiveWorker], tasks: list[TaskId], current: Where) -> None:
    placed = assign(members, tasks, current)
    assert assign(members, tasks, where(placed)) == placed


@given(members, tasks, current, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    members: list[LiveWorker], tasks: list[TaskId], current: Where, random: Random
) -> None:
    placed = assign(members, tasks, current)
    shuffled = list(current.items())
    for items in (members, tasks, shuffled):
        random.shuffle(items)
    assert assign(members, tasks, dict(shuffled)) == placed


def fewest_moves(members: list[LiveWorker], tasks: list[TaskId], current: Where) -> int:
    """The fewest tasks that have to leave a live worker so that the spread is even, counted worker by worker.

    Each worker ends with a load between `low` and `low` + 1 (or its slots); as many as possible of those that hold
    more than `low` now get the extra one.
    """
    held = Counter(current[task] for task in tasks if task in current)
    now = {member: held[(member.worker, member.incarnation)] for member in members}
    total = min(len(tasks), sum(member.slots for member in members))
    low = 0
    while sum(min(member.slots, low + 1) for member in members) <= total and low < 20:
        low += 1
    base = {member: min(member.slots, low) for member in members}
    extra = total - sum(base.values())
    leaving = sum(max(0, now[member] - base[member]) for member in members)
    could_keep = sum(1 for member in members if now[member] > base[member] and member.slots > low)
    return leaving - min(extra, could_keep)


@given(members, tasks, current)
def test_as_few_tasks_move_as_an_even_spread_allows(
    members: list[LiveWorker], tasks: list[TaskId], current: Where
) -> None:
    live = {(member.worker, member.incarnation) for member in members}
    placed = where(assign(members, tasks, current))
    moved = [task for task in tasks if current.get(task) in live and placed.get(task) != current.get(task)]
    assert len(moved) == fewest_moves(members, tasks, current)


def test_without_members_nothing_is_placed() -> None:
    assert assign([], [TaskId(ConnectorName("a"), 0)], {}) == {}


def test_a_restarted_worker_is_another_one() -> None:
    task = TaskId(ConnectorName("a"), 0)
    old, new = (LiveWorker(WorkerId("w"), Incarnation(number), 1) for number in "12")
    assert assign([new], [task], {task: (old.worker, old.incarnation)}) == {task: new}


@given(members_with_reserve, st.data())
def test_tasks_are_settled_exactly_if_none_would_move(members: list[LiveWorker], data: st.DataObject) -> None:
    """Most are where a member is, as nearly always; the others' worker has left."""
    here = [(member.worker, member.incarnation) for member in members]
    stay = data.draw(st.dictionaries(task_ids, (st.sampled_from(here) | places) if here else places, max_size=12))
    candidates = [Candidate(task, Generation(1), PlacementStep.STAY, prefer=place) for task, place in stay.items()]
    assert are_settled(candidates, members) == (where(assign(members, list(stay), stay)) == stay)


@given(members_with_reserve, st.sampled_from([step for step in PlacementStep if step is not PlacementStep.STAY]))
def test_tasks_for_which_something_is_due_are_not_settled(members: list[LiveWorker], step: PlacementStep) -> None:
    place = (members[0].worker, members[0].incarnation) if members else None
    due = Candidate(TaskId(ConnectorName("a"), 0), Generation(1), step, prefer=place)
    assert not are_settled([due], members)


@given(members_with_reserve, tasks, st.data())
def test_tasks_that_stay_need_not_be_looked_at_one_by_one(
    members: list[LiveWorker], tasks: list[TaskId], data: st.DataObject
) -> None:
    here = [(member.worker, member.incarnation) for member in members]
    current = data.draw(st.dictionaries(task_ids, st.sampled_from(here) | places if here else places))
    avoid = data.draw(st.dictionaries(task_ids, places))
    stay = data.draw(st.sets(st.sampled_from(sorted(current)))) if current else set()
    staying: dict[Place, set[TaskId]] = {}
    for task in stay:
        staying.setdefault(current[task], set()).add(task)
    others = [task for task in tasks if task not in stay]
    assignment, left = reassign(members, others, current, avoid, staying)
    whole = assign(members, [*others, *stay], current, avoid)
    moves = {task: member for task, member in whole.items() if task not in stay or where(whole)[task] != current[task]}
    assert assignment == moves
    assert sorted(left) == sorted({*others, *stay} - whole.keys())
    candidates = [Candidate(task, Generation(1), PlacementStep.STAY, prefer=current.get(task)) for task in others]
    whole_candidates = [Candidate(task, Generation(1), PlacementStep.STAY, prefer=current[task]) for task in stay]
    assert are_settled(candidates, members, staying) == are_settled([*candidates, *whole_candidates], members)
