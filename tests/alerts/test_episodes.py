"""A failure is one episode over automatic restarts, until records flow or the connector is at rest: pure."""

from dataclasses import replace
from typing import Any

import pytest

from ringfence.alerts.conditions import Kind, RuleCondition, evaluate_rules
from ringfence.alerts.evaluation import STABLE_MS, follow
from ringfence.alerts.snapshot import ClusterSnapshot, ConnectorSnapshot, Episode, TaskSnapshot

START = 1_000_000_000
LOOK_MS = 5_000


def cluster(now: int, state: str, since: int, *, committed: int = 0, target: str = "RUNNING") -> ClusterSnapshot:
    task = TaskSnapshot("flights", 0, state, since, since, 0, "Boom: record 3" if state == "FAILED" else "", committed)
    return ClusterSnapshot(now, (ConnectorSnapshot("flights", "RUNNING", target, START),), (task,))


def fail(held: dict[str, Episode] | None = None, at: int = START) -> dict[str, Episode]:
    return follow(held or {}, cluster(at + 1000, "FAILED", at))


def test_a_crash_loop_is_one_episode_and_the_first_notice_comes_on_time() -> None:
    """As restarts do it: failed for 10, 20, 40 s …, and running for 4 s in between, into the same record."""
    held: dict[str, Episode] = {}
    rule, first, changes = RuleCondition(1, Kind.FAILED, "*", 60), 0, 0
    state, since, until, pause = "FAILED", START, START + 10_000, 10_000
    before: set[Any] = set()
    for now in range(START, START + 600_000, LOOK_MS):
        while now >= until:
            since = until
            state = "RUNNING" if state == "FAILED" else "FAILED"
            pause = pause * 2 if state == "FAILED" else pause
            until = since + (pause if state == "FAILED" else 4_000)
        seen = cluster(now, state, since)
        held = follow(held, seen)
        found = evaluate_rules([rule], replace(seen, episodes=tuple(held.values())))
        if found and not first:
            first = now
        changes += set(found) != before
        before = set(found)
    assert first - START == 60_000
    assert changes == 1  # it began, and that is all
    (episode,) = held.values()
    assert episode.began_ms == START
    assert episode.failures == 6
    assert episode.summary == "Task 0 of flights has failed. Boom: record 3"


@pytest.mark.parametrize(
    ("later", "over"),
    [
        (cluster(START + 60_000, "RUNNING", START + 50_000), False),  # it runs, into the same record
        (cluster(START + 60_000, "RUNNING", START + 50_000, committed=START - 1), False),  # a commit of before
        (cluster(START + 60_000, "RUNNING", START + 50_000, committed=START + 55_000), True),
        (cluster(START + 60_000, "UNASSIGNED", START + 50_000), False),
        (cluster(START + 60_000, "RESTARTING", START + 50_000, committed=START + 55_000), False),
        (cluster(START + 60_000, "FAILED", START, target="PAUSED"), True),  # at rest, since somebody wants it so
        (cluster(START + 60_000, "STOPPED", START, target="STOPPED"), True),
        (cluster(START + STABLE_MS, "RUNNING", START + 1), False),
        (cluster(START + STABLE_MS + 1, "RUNNING", START + 1), True),  # its source may have nothing to read
        (ClusterSnapshot(START + 60_000), True),  # it was deleted
    ],
)
def test_what_ends_an_episode(later: ClusterSnapshot, over: bool) -> None:
    assert (follow(fail(), later) == {}) is over


def test_the_newest_error_is_told() -> None:
    later = cluster(START + 90_000, "FAILED", START + 80_000)
    told = replace(later, tasks=(replace(later.tasks[0], trace="Other: error"),))
    (episode,) = follow(fail(), told).values()
    assert (episode.failures, episode.failed_ms, episode.summary[-12:]) == (2, START + 80_000, "Other: error")
