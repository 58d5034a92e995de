"""The History tab's tables: what is added up once, what is a gap, and what the points of an axis are made of."""

import json
from dataclasses import asdict

import pytest

from ringfence.access.principal import EVERYBODY_HERE
from ringfence.api.v1.history import Scope, choose_range, find_series, put_together
from ringfence.fencing.topics.status import PollRetry
from ringfence.projection.history_points import HOUR, KEEP_MINUTES_DAYS, MINUTE, HistoryRecorder, prune, sum_up
from ringfence.projection.models import HistoryPoint, Minute, Task
from tests.support.projections import progress, project, running
from tests.support.topics import Topic

MS = 60_000
OF_C = Scope(EVERYBODY_HERE, "c")
DAY = 24 * 60


def test_a_range_has_at_most_720_points_of_minutes_where_they_are_kept() -> None:
    span = choose_range(0, 60 * MS, oldest=0)
    assert (span.first, span.end, span.step, span.source) == (0, 60, 1, MINUTE)
    span = choose_range(1 * MS, DAY * MS, oldest=0)
    assert (span.first, span.end, span.step, span.source) == (0, DAY, 2, MINUTE)
    span = choose_range(0, 60 * MS, oldest=5)
    assert (span.step, span.source) == (HOUR, HOUR), "minutes are gone"
    span = choose_range(90 * MS, 90 * DAY * MS, oldest=0)
    assert (span.first % span.step, span.step % HOUR, span.source) == (0, 0, HOUR)
    assert (span.end - span.first) // span.step <= 721


def row(minute: int, **more: object) -> dict[str, object]:
    blank = {"minute": minute, "minutes": 1, "state": "RUNNING", "open_transactions": 0, "commit_sum_ms": 0.0}
    blank |= dict.fromkeys(
        ("records", "commits", "aborted", "skipped", "dead_letters", "fences", "restarts", "failed", "commit_count"), 0
    )
    return {**blank, "commit_max_ms": 0.0, "lag": None, "lag_name": "", "age_ms": None, **more}


def test_points_are_sums_largest_and_worst_and_gaps_are_no_zeros() -> None:
    span = choose_range(0, 6 * MS, oldest=0)
    rows = [
        row(0, records=3, commit_sum_ms=10.0, commit_count=2, commit_max_ms=8.0, lag=5.0),
        row(1, state="FAILED", open_transactions=2),
        row(4, records=7),
    ]
    points = put_together(rows, {0: 1, 1: 1, 2: 1}, span)
    assert [point["records"] for point in points] == [3, 0, 0, None, 7, None]
    assert [point["state"] for point in points] == ["RUNNING", "FAILED", "", None, "RUNNING", None]
    assert [point["commit_ms"] for point in points] == [5.0, None, None, None, None, None]
    wide = put_together(rows, {0: 1, 1: 1, 2: 1}, type(span)(0, 6, 3, MINUTE))
    assert [(each["records"], each["state"], each["open_transactions"]) for each in wide] == [
        (3, "FAILED", 2), (7, "RUNNING", 0),
    ]  # fmt: skip


def seen(recorder: HistoryRecorder, *minutes: int) -> None:
    for minute in minutes:
        recorder.look(minute * MS + 100)


def test_what_tasks_report_becomes_minutes_and_hours_once_over_restarts() -> None:
    running(tasks=2)
    events = Topic()
    progress(events, 61 * MS, 100)
    progress(events, 61 * MS, 30, task=1)
    progress(events, 62 * MS, 150)
    project("events", events)
    measures = {"commit_times_ms": {"min": 1, "max": 9, "sum": 30, "count": 10}, "gauges_ms": 61 * MS}
    gauge = {"name": "lag", "unit": "bytes", "value": 7.0, "description": "", "labels": {}}
    Task.objects.filter(number=0).update(measures=json.dumps({**measures, "gauges": [gauge]}), open_since_ms=5)
    Task.objects.filter(number=1).update(measures=json.dumps(measures), open_since_ms=5)
    first = HistoryRecorder()
    seen(first, 61, 61, 62, 63, 64)
    again = HistoryRecorder()  # the projection went to another worker, and came back after minutes without any
    seen(again, 64, 65, 70, 71, 72)
    found = find_series(OF_C, 60 * MS, 72 * MS)
    points = {point["time_ms"] // MS: point for point in found["points"]}
    assert (points[61]["records"], points[62]["records"]) == (130, 50)
    assert (points[61]["commit_ms"], points[61]["commit_max_ms"]) == (3.0, 9.0)
    assert (points[61]["open_transactions"], points[61]["lag"], found["lag_name"]) == (2, 7.0, "lag")
    assert points[64]["records"] == 0, "somebody was there, and nothing came"
    assert (points[67]["records"], points[67]["state"]) == (None, None), "nobody was there"
    hour = HistoryPoint.objects.get(step=HOUR, connector="c", minute=60)
    assert (hour.records, hour.commit_max_ms, hour.state) == (180, 9.0, "RUNNING")
    project("events", events)
    assert HistoryPoint.objects.get(step=HOUR, connector="c", minute=60).records == 180


def test_a_minute_in_which_a_source_refused_is_one_of_retrying() -> None:
    running(tasks=2)
    refused = json.dumps(asdict(PollRetry("connection refused", 61 * MS, 3, 0)))
    Task.objects.filter(number=0).update(state="RUNNING", retry=refused)
    events = Topic()
    progress(events, 62 * MS, 100, task=1)
    project("events", events)
    seen(HistoryRecorder(), 61, 62, 63, 64, 65)
    points = {point["time_ms"] // MS: point["state"] for point in find_series(OF_C, 60 * MS, 64 * MS)["points"]}
    assert [points[minute] for minute in (61, 62, 63)] == ["RETRYING"] * 3, "with rows of another task and without"


def test_a_minute_after_a_task_has_failed_is_one_of_failure() -> None:
    """It does nothing then, and the connector itself runs."""
    running(tasks=2)
    Task.objects.filter(number=0).update(state="FAILED")
    events = Topic()
    progress(events, 62 * MS, 100, task=1)
    project("events", events)
    recorder = HistoryRecorder()
    seen(recorder, 61, 62, 63)
    points = {point["time_ms"] // MS: point["state"] for point in find_series(OF_C, 60 * MS, 64 * MS)["points"]}
    assert [points[minute] for minute in (61, 62)] == ["FAILED"] * 2, "before it is summed"
    seen(recorder, 64, 65)
    points = {point["time_ms"] // MS: point["state"] for point in find_series(OF_C, 60 * MS, 64 * MS)["points"]}
    assert [points[minute] for minute in (61, 62, 63)] == ["FAILED"] * 3, "with rows of another task and without"


def test_what_the_tasks_did_while_nobody_looked_is_added_when_it_is_read() -> None:
    running(tasks=1)
    seen(HistoryRecorder(), 61, 62, 63)
    events = Topic()
    progress(events, 65 * MS, 100)
    project("events", events)
    seen(HistoryRecorder(), 90, 91)
    points = {point["time_ms"] // MS: point for point in find_series(OF_C, 60 * MS, 92 * MS)["points"]}
    assert (points[65]["records"], points[66]["records"]) == (100, None)


def test_old_points_go_by_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEEP_MINUTES_DAYS, "2")
    for step, minute in ((MINUTE, 0), (MINUTE, DAY), (HOUR, 0)):
        HistoryPoint.objects.create(step=step, connector="c", minute=minute)
    prune(2 * DAY * MS + 60 * MS)
    assert sorted(HistoryPoint.objects.values_list("step", "minute")) == [(MINUTE, DAY), (HOUR, 0)]
    assert not Minute.objects.exists()


def test_the_cluster_has_the_sums_the_worst_state_and_the_oldest_data_of_all() -> None:
    running(tasks=2)
    events = Topic()
    progress(events, 61 * MS, 100)
    progress(events, 61 * MS, 30, task=1)
    project("events", events)
    Task.objects.filter(number=0).update(data_as_of_ms=58 * MS + 100)
    Task.objects.filter(number=1).update(data_as_of_ms=60 * MS + 100)
    seen(HistoryRecorder(), 61, 62, 63, 64)
    for scope in (OF_C, Scope(EVERYBODY_HERE)):
        points = {point["time_ms"] // MS: point for point in find_series(scope, 60 * MS, 64 * MS)["points"]}
        assert (points[61]["records"], points[61]["state"], points[61]["age_ms"]) == (130, "RUNNING", 3 * MS)
        assert (points[62]["records"], points[62]["age_ms"]) == (0, 4 * MS)
    hour = HistoryPoint.objects.get(step=HOUR, connector="", minute=60)
    assert (hour.records, hour.state, hour.age_ms) == (130, "RUNNING", 4 * MS)


def test_data_of_a_paused_connector_does_not_make_the_cluster_look_old() -> None:
    points = [
        HistoryPoint(step=MINUTE, connector="a", minute=5, state="PAUSED", age_ms=90 * MS),
        HistoryPoint(step=MINUTE, connector="b", minute=5, state="RUNNING", age_ms=MS, records=7, dead_letters=2),
    ]
    every = sum_up(points, {6})
    assert (every[5].age_ms, every[5].state, every[5].records, every[5].dead_letters) == (MS, "PAUSED", 7, 2)
    assert (every[6].state, every[6].age_ms) == ("", None)
