"""The simulated cluster of `python -m benchmarks leader`."""

from typing import Any

import pytest

from benchmarks.leader import (
    FULL_PASS,
    ONCE,
    ONE_CONNECTOR,
    ONE_STATUS,
    ONE_WORKER,
    RESTING_PASS,
    TARGET_S,
    Passes,
    simulate,
    table,
    works,
)
from ringfence.fencing.leader import work_list
from ringfence.fencing.topics.connector_state import ConnectorState


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


def test_a_pass_looks_at_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By counting, since times say little on a machine that does something else, too."""
    looks: list[str] = []
    rest_of = work_list.rest_of

    def count(connector: ConnectorState, *rest: Any) -> Any:
        looks.append(connector.name)
        return rest_of(connector, *rest)

    monkeypatch.setattr(work_list, "rest_of", count)
    topics = simulate(300)
    expected = {FULL_PASS: 300, RESTING_PASS: 0, ONE_STATUS: 1, ONE_CONNECTOR: 0, ONE_WORKER: 0}
    for name, work in works(topics).items():
        looks.clear()
        work()
        if name in expected:  # what is due is done, and does not rest yet
            assert len(looks) == expected[name], name


def test_all_rest_after_one_pass() -> None:
    passes = Passes(simulate(20))
    passes.look()
    assert not passes._loop._work.names
    assert not passes.records
