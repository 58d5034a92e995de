"""The history by minutes: what happened when, counted once, and never more of it than may be kept."""

import random
from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ringfence.fencing.topics.status import PollRetry, State
from ringfence.projection import task_minutes
from ringfence.projection.models import Connector, Minute, Task
from ringfence.projection.task_minutes import EVERYTHING, ITSELF, UNKNOWN, Cell, hours, join_strips, strips, worst
from tests.support.projections import progress, project, running
from tests.support.topics import Topic, connector_status, task_status

MINUTE = 60_000


def states(cells: list[Cell]) -> list[str]:
    return [cell.state for cell in cells]


def told(topic: Topic, state: State, at: int, attempt: int = 1, generation: int = 1) -> None:
    topic.status(replace(task_status("c", 0, state, generation), attempt=attempt, since_ms=at))


def test_a_strip_knows_the_worst_of_each_minute_and_fills_those_without_news() -> None:
    running(tasks=1)
    status = Topic()
    told(status, State.RUNNING, 2 * MINUTE, generation=5)
    told(status, State.FAILED, 5 * MINUTE + 10, generation=5)
    told(status, State.UNASSIGNED, 5 * MINUTE + 20, attempt=2, generation=5)
    told(status, State.RUNNING, 5 * MINUTE + 30, attempt=2, generation=5)
    told(status, State.PAUSED, 8 * MINUTE, attempt=2, generation=5)
    project("status", status, "id-2")
    Minute.objects.filter(minute=0).delete()  # as far as this strip goes, the task appears at the second minute
    Minute.objects.filter(minute=2).update(began="", state="RUNNING")
    cells = strips(["c"], 9 * MINUTE, 10)["c", 0]
    assert states(cells) == [
        "", "", "RUNNING", "RUNNING", "RUNNING", "FAILED", "RUNNING", "RUNNING", "PAUSED", "PAUSED",
    ]  # fmt: skip
    assert [(cell.minute, cell.restarts, cell.failed) for cell in cells if cell.restarts or cell.failed] == [(5, 1, 1)]


def test_a_minute_in_which_a_task_failed_shows_it_for_as_long_as_it_stays_failed() -> None:
    running(tasks=1)
    status = Topic()
    told(status, State.FAILED, 3 * MINUTE)
    project("status", status, "id-2")
    assert states(strips(["c"], 6 * MINUTE, 4)["c", 0]) == ["FAILED"] * 4
    assert states(strips(["c"], 99 * MINUTE, 2)["c", 0]) == ["FAILED"] * 2


def test_the_minutes_in_which_a_source_refused_show_that_while_it_does_and_afterwards() -> None:
    running(tasks=1)
    status, events = Topic(), Topic()
    told(status, State.RUNNING, 2 * MINUTE, generation=5)
    project("status", status, "id-2")
    refused = replace(task_status("c", 0, State.RUNNING, 5), attempt=1, since_ms=2 * MINUTE)
    for attempts in (3, 9):
        status.status(replace(refused, retry=PollRetry("connection refused", 4 * MINUTE, attempts, 0)))
    project("status", status, "id-2")
    progress(events, 6 * MINUTE, 0, generation=5)  # it lives, and moves nothing
    project("events", events)
    Minute.objects.filter(minute=0).delete()
    during = ["RUNNING", *["RETRYING"] * 6]
    assert states(strips(["c"], 9 * MINUTE, 7)["c", 0]) == during
    assert hours(["c"], 9 * MINUTE, 7)["c"].states == during
    status.status(refused)
    status.records[-1] = replace(status.records[-1], timestamp_ms=10 * MINUTE)
    project("status", status, "id-2")
    assert states(strips(["c"], 11 * MINUTE, 9)["c", 0]) == [*during, "RETRYING", "RUNNING"]


def test_reports_are_counted_in_their_minutes_and_once_for_everything() -> None:
    running(tasks=2)
    events = Topic()
    progress(events, MINUTE, 100)
    progress(events, MINUTE + 1_000, 150)
    progress(events, 2 * MINUTE, 170)
    progress(events, 2 * MINUTE, 30, task=1)
    project("events", events)
    project("events", events)
    found = strips(["c"], 2 * MINUTE, 2)
    assert [cell.records for cell in found["c", 0]] == [150, 20]
    assert [cell.records for cell in join_strips([found["c", 0], found["c", 1]])] == [150, 50]
    assert list(
        Minute.objects.filter(connector=EVERYTHING, task=ITSELF).order_by("minute").values_list("records", "commits")
    ) == [(150, 15), (50, 5)]


def test_nothing_is_said_of_the_time_before_a_connector_was_there() -> None:
    running(tasks=1)
    events = Topic()
    progress(events, 7 * MINUTE + 30, 100)
    events.event(type="round", connector="c", generation=2, stage="done", fenced=[], time_ms=7 * MINUTE + 10)
    Minute.objects.all().delete()
    Task.objects.update(state="RUNNING", since_ms=7 * MINUTE + 20)
    Connector.objects.update(state="RUNNING", since_ms=7 * MINUTE)
    project("events", events, "id-3")  # read before the status topic
    found = strips(["c"], 8 * MINUTE, 9)
    assert states(found["c", 0])[:7] == [""] * 7
    assert states(found["c", ITSELF])[:7] == [""] * 7
    assert hours(["c"], 8 * MINUTE, 9)["c"].states[:7] == [""] * 7


def test_rounds_are_counted_for_the_connector() -> None:
    running(tasks=1)
    events = Topic()
    for at in (MINUTE, MINUTE + 5):
        events.event(type="round", connector="c", generation=1, stage="done", tasks=1, fenced=[], ms=1, time_ms=at)
    project("events", events)
    assert [cell.fences for cell in strips(["c"], 2 * MINUTE, 3)["c", ITSELF]] == [0, 2, 0]


def test_a_connector_has_a_strip_of_its_own() -> None:
    running(tasks=1)
    status = Topic()
    status.raw(b"status-connector-c", status.status(connector_status("c", State.FAILED))[0].value, at=4 * MINUTE)
    project("status", status, "id-2")
    cells = strips(["c"], 5 * MINUTE, 6)["c", ITSELF]
    assert states(cells)[-2:] == ["FAILED", "FAILED"]
    assert sum(cell.failed for cell in cells) == 1


def test_a_strip_without_any_news_knows_only_its_state() -> None:
    running(tasks=1)
    Minute.objects.all().delete()
    assert states(strips(["c"], 2 * MINUTE, 3)["c", 0]) == ["RUNNING"] * 3
    assert strips(["nobody"], 2 * MINUTE, 3) == {}


def test_strips_cost_the_same_for_any_number() -> None:
    running(tasks=9)
    with CaptureQueriesContext(connection) as captured:
        strips(["c", "d", "e"], MINUTE)
    assert len(captured) == 3


def test_a_state_that_nobody_knows_is_the_worst() -> None:
    assert worst(["RUNNING", "DREAMING", "FAILED"]) == "DREAMING"
    assert worst([]) == ""


def test_no_more_is_kept_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10 * task_minutes.KEPT
    Minute.objects.bulk_create(
        Minute(connector="c", task=task, minute=minute)
        for task in range(2)
        for minute in range(now - task_minutes.KEPT - 5, now + 1)
    )
    task_minutes.prune(now * MINUTE)
    kept = Minute.objects.order_by("minute")
    assert (kept.count(), kept[0].minute) == (2 * (task_minutes.KEPT + 1), now - task_minutes.KEPT)
    monkeypatch.setattr(task_minutes, "MOST_ROWS", 500)
    task_minutes.prune(now * MINUTE)
    assert kept.count() <= 500
    assert kept[0].minute > now - 250
    monkeypatch.setattr(task_minutes, "MOST_ROWS", 10)
    task_minutes.prune(now * MINUTE)
    assert kept[0].minute == now - task_minutes.SHOWN


def test_the_hours_of_many_say_the_same_as_their_strips_joined() -> None:
    """Both read the same rows, one of them fewer of these."""
    states = ("RUNNING", "FAILED", "RETRYING", "RESTARTING", "UNASSIGNED", "PAUSED", "STOPPED")
    names = [f"c{number}" for number in range(40)]
    choose = random.Random(7)
    for name in names:
        since = choose.choice((0, 70, 95)) * MINUTE
        Connector.objects.create(name=name, known=True, state=choose.choice(states), since_ms=since)
        for task in range(choose.randrange(3)):
            state, at = choose.choice(states), 40
            while at < 100:
                at += choose.randrange(1, 25)
                new = choose.choice(states)
                counts = {"fences": choose.randrange(2), "restarts": choose.randrange(2), "records": 5}
                both = (state, new)
                Minute.objects.create(connector=name, task=task, minute=at, began=state, state=worst(both), **counts)
                state = new
            Task.objects.create(connector=name, number=task, known=choose.random() < 0.8, state=state, since_ms=since)
    found = hours(names, 99 * MINUTE)
    every = strips(names, 99 * MINUTE)
    for name in names:
        cells = join_strips([strip for key, strip in every.items() if key[0] == name])
        told = found[name]
        assert told.states == [cell.state for cell in cells], name
        assert (told.fences, told.restarts) == ([cell.fences for cell in cells], [cell.restarts for cell in cells])
    Connector.objects.filter(name="c1").update(state="DREAMING")
    assert hours(["c1"], 99 * MINUTE, 1)["c1"].states == [UNKNOWN]
