"""Which transactions ended between two reports of a task: what is drawn on the Transactions tab."""

import json
from typing import Any

import pytest

from ringfence.projection.models import Task
from tests.support.projections import project, running
from tests.support.topics import Topic


def ended(*reports: dict[str, Any]) -> list[list[int]]:
    """What `recent` says of these reports' transactions."""
    running(1)
    events = Topic()
    for report in reports:
        events.event(**{"type": "progress", "connector": "c", "task": 0, "generation": 3, "attempt": 1, **report})
    project("events", events)
    return [item[2:] for item in json.loads(Task.objects.get().recent) if len(item) > 2]


OPEN = {"time_ms": 10_000, "records": 5, "open_records": 5, "open_since_ms": 9_300, "life_ms": 4_000}
BETWEEN = [10_000, 19_100, 0, 0, 0]
"""From the last report of OPEN's attempt to the start of the next."""


def test_a_transaction_that_was_open_reaches_from_its_beginning_to_its_commit() -> None:
    after = {"time_ms": 11_000, "records": 8, "transactions": 1, "last_commit_ms": 10_700, "open_records": 1}
    assert ended(OPEN, after) == [[9_300, 10_700, 1, 0, 7]]


def test_short_ones_between_two_reports_come_together() -> None:
    before = {"time_ms": 10_000, "records": 5, "transactions": 2, "last_commit_ms": 9_900, "life_ms": 4_000}
    after = {"time_ms": 11_000, "records": 30, "transactions": 6, "last_commit_ms": 10_990}
    assert ended(before, after) == [[6_000, 9_900, 2, 0, 5], [10_000, 10_990, 4, 0, 25]]


def test_an_aborted_one_ends_with_the_report_that_tells_of_it() -> None:
    after = {"time_ms": 11_000, "records": 7, "aborted": 1, "last_commit_ms": 0}
    assert ended(OPEN, after) == [[9_300, 11_000, 0, 1, 7]]


def test_a_new_attempt_counts_from_its_own_start() -> None:
    after = {"time_ms": 20_000, "records": 2, "transactions": 1, "last_commit_ms": 19_500, "attempt": 2, "life_ms": 900}
    assert ended(OPEN, after) == [BETWEEN, [19_100, 19_500, 1, 0, 2]]


def test_the_time_between_two_attempts_is_told_once() -> None:
    first = {"time_ms": 20_000, "records": 2, "attempt": 2, "life_ms": 900}
    assert ended(OPEN, first, {**first, "time_ms": 21_000, "life_ms": 1_900}) == [BETWEEN]


def test_an_attempt_that_began_before_the_last_report_leaves_no_time_between() -> None:
    assert ended(OPEN, {"time_ms": 11_000, "records": 2, "attempt": 2, "life_ms": 1_500}) == []


@pytest.mark.parametrize("nonsense", [{"records": "x"}, {"last_commit_ms": 10**15}, {"life_ms": -7}])
def test_nonsense_draws_nothing_backwards(nonsense: dict[str, Any]) -> None:
    after = {"time_ms": 11_000, "records": 8, "transactions": 1, "last_commit_ms": 10_700, **nonsense}
    for began, end, _, _, records in ended(OPEN, after):
        assert began <= end <= 11_000
        assert records >= 0
