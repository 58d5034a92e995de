"""The simulated cluster of `python -m benchmarks leader`."""

from benchmarks.leader import ONCE, TARGET_S, simulate, table, works


def test_all_tasks_of_the_simulated_cluster_run_and_nothing_is_due() -> None:
    topics = simulate(150)
    placed = [one.worker for connector in topics.state.existing() for one in connector.placements.values()]
    assert len(placed) == len(topics.status.tasks) == 150
    assert {placed.count(member.worker) for member in topics.members} == {1, 2}
    assert all(len(list(topics.status.at_work(connector.name))) == 1 for connector in topics.state.existing())


def test_each_work_is_done() -> None:
    for work in works(simulate(5)).values():
        work()


def test_the_target_is_about_what_is_done_again_and_again() -> None:
    first, slow = ONCE[0], 2 * TARGET_S
    rows = table({first: [slow], "a loop": [slow], "another": [0.1]}, [10]).splitlines()[2:]
    assert [row.split(" | ")[-1] for row in rows] == ["once, at the start |", "no |", "yes |"]
