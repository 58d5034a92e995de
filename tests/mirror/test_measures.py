"""What only metrics show: measurements and totals of tasks, startups, automatic restarts, fencings."""

import json
from dataclasses import replace

from ringfence.fencing.ids import Generation
from ringfence.fencing.topics.status import FAILED, LOST, PLACED, RESTARTED, State, TaskStatus
from ringfence.projection.models import Connector, Startups, Task
from tests.support.projections import project, running
from tests.support.topics import Topic, connector_status, task_status


def reported(attempt: int, **fields: object) -> dict[str, object]:
    return {"type": "progress", "connector": "c", "task": 0, "generation": 3, "attempt": attempt, **fields}


def test_totals_go_on_over_attempts_and_measures_are_the_newest_ones() -> None:
    running(1)
    events = Topic()
    events.event(**reported(1, polled=10, aborted=1, transactions=2, record_errors=1, time_ms=1_000))
    events.event(**reported(1, polled=30, aborted=1, transactions=5, record_errors=1, time_ms=3_000))
    project("events", events)
    task = Task.objects.get()
    assert json.loads(task.measures)["poll_rate"] == 10
    events.event(**reported(2, polled=4, aborted=2, transactions=1, poll_ms={"max": 7, "sum": 9, "count": 2, "min": 2}))
    project("events", events)
    task.refresh_from_db()
    assert json.loads(task.totals) == {
        "aborted": 3,
        "commit_failures": 0,
        "errors_logged": 0,
        "polled": 34,
        "producers_renewed": 0,
        "record_errors": 1,
        "record_failures": 0,
        "retries": 0,
        "transactions": 6,
    }
    assert json.loads(task.measures)["poll_ms"] == {"max": 7, "sum": 9, "count": 2, "min": 2}


def test_a_report_of_nonsense_does_no_harm() -> None:
    running(1)
    events = Topic()
    events.event(**reported(1, polled="many", poll_ms=[1], commit_times_ms={"max": True, "sum": None}))
    project("events", events)
    assert json.loads(Task.objects.get().measures)["commit_times_ms"] == {"min": 0, "max": 0, "sum": 0, "count": 0}


def said(state: State, attempt: int, why: str = "", restarts: int = 0, next_ms: int = 0) -> TaskStatus:
    status = task_status("c", 0, state, generation=9)
    return replace(status, attempt=attempt, why=why, restarts=restarts, next_ms=next_ms, since_ms=attempt * 1_000)


def test_startups_are_told_from_changes_of_state() -> None:
    status = Topic()
    status.status(said(State.UNASSIGNED, 1, PLACED), said(State.RUNNING, 1), said(State.PAUSED, 1))
    status.status(said(State.RUNNING, 1), said(State.FAILED, 1, FAILED), said(State.FAILED, 1, FAILED, 0, 11_000))
    project("status", status)
    task = Task.objects.get()
    assert (task.state, task.next_restart_ms, task.auto_restarts) == ("FAILED", 11_000, 0)
    status.status(said(State.RESTARTING, 2, RESTARTED, 1), said(State.FAILED, 2, FAILED, 1))
    status.status(said(State.RESTARTING, 3, RESTARTED, 2), said(State.RUNNING, 3, restarts=2))
    status.status(said(State.UNASSIGNED, 3, LOST, 2), said(State.UNASSIGNED, 4, PLACED, 2))
    project("status", status)
    counted = Startups.objects.get()
    assert (counted.worker, counted.task_attempts, counted.task_successes, counted.task_failures) == ("w1", 4, 2, 1)
    task.refresh_from_db()
    assert (task.restarts, task.next_restart_ms, task.auto_restarts) == (2, 0, 2)


def test_a_connector_s_starts_are_counted_once_however_often_its_state_is_said() -> None:
    status = Topic()
    for state in (State.UNASSIGNED, State.RUNNING, State.RUNNING, State.PAUSED, State.RUNNING, State.FAILED):
        status.status(connector_status("c", state))
        project("status", status)
    counted = Startups.objects.get()
    assert (counted.connector_successes, counted.connector_failures) == (1, 1)


def test_fencings_add_up_over_rounds() -> None:
    running(1)
    events = Topic()
    for generation in (Generation(3), Generation(7)):
        events.event(type="round", connector="c", generation=generation, stage="fencing")
        ids = [{"id": "g-c-0", "producer_id": 1, "epoch": 2}, {"id": "g-c-1", "producer_id": 2, "epoch": 0}]
        events.event(type="round", connector="c", generation=generation, stage="done", fenced=ids)
    project("events", events)
    row = Connector.objects.get()
    assert (row.rounds_total, row.fenced_total) == (2, 4)
