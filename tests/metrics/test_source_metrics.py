"""What plugins measure at their sources: at `/metrics`, in the API, and as incidents above their limits."""

import time
from typing import Any

import pytest
from django.test import Client

from ringfence.alerts import evaluation
from ringfence.alerts.models import Incident, Rule
from ringfence.metrics.views import exposition
from ringfence.projection.models import Task
from ringfence.projection.progress_reports import FRESH_MS, format_value, metrics_of
from tests.support.busy_tables import busy
from tests.support.projections import project
from tests.support.topics import Topic

LAG = {"name": "lag", "unit": "bytes", "description": "How far behind", "value": 500.0, "limit": 400, "remedy": "Look"}


class Reports:
    """What the task of `busy` says from `now` on."""

    def __init__(self) -> None:
        self.now = int(time.time() * 1000)
        self._events: Topic = busy(self.now)

    def __call__(self, time_ms: int, *gauges: object, attempt: int = 1) -> None:
        told: dict[str, Any] = {"type": "progress", "connector": "c", "task": 0, "generation": 2, "attempt": attempt}
        self._events.event(**told, time_ms=time_ms, **({"gauges": list(gauges)} if gauges else {}))
        project("events", self._events)


@pytest.fixture
def report() -> Reports:
    return Reports()


def test_gauges_are_families_of_the_exposition_while_they_are_fresh(report: Reports) -> None:
    now = report.now
    report(now, LAG, {**LAG, "name": "rows", "unit": "", "labels": {"table": 'a"b'}, "limit": None})
    text = exposition(now)
    assert "# HELP ringfence_source_lag_bytes How far behind. Bad when it is above 400 B.\n" in text
    assert '\nringfence_source_lag_bytes{connector="c",task="0"} 500\n' in text
    assert '\nringfence_source_rows{connector="c",task="0",table="a\\"b"} 500\n' in text
    report(now + 1_000)  # a report without gauges, such as most are
    assert "ringfence_source_lag_bytes{" in exposition(now + 1_000)
    assert "ringfence_source_lag_bytes{" not in exposition(now + FRESH_MS)


def test_reports_of_nonsense_do_no_harm(report: Reports) -> None:
    now = report.now
    bad: list[Any] = [7, {}, {**LAG, "name": "x\ny"}, {**LAG, "value": True}, {**LAG, "value": float("nan")}]
    bad += [{**LAG, "labels": {"task": "9"}}, {**LAG, "unit": "b/s"}, {**LAG, "labels": [1]}]
    report(now, *bad, {**LAG, "description": "nul \x00", "limit": "many", "remedy": None})
    (found,) = metrics_of([Task.objects.get()], now)
    assert (found.limit, found.over, found.description) == (None, False, "nul \ufffd")
    report(now, {**LAG, "value": float("inf")})
    assert list(metrics_of([Task.objects.get()], now)) == []


def test_above_its_limit_for_long_enough_is_one_incident_until_it_is_below(report: Reports) -> None:
    now = report.now
    Rule.objects.create(name="r", kind="source-metric", seconds=60)
    report(now - 120_000, {**LAG, "value": 399})
    report(now - 70_000, LAG)
    report(now - 10_000, {**LAG, "value": 900})
    evaluation.evaluate(now - 11_000)
    assert Incident.objects.count() == 0
    evaluation.evaluate(now)
    (found,) = Incident.objects.all()
    assert found.summary == "c: How far behind: 900 B, more than 400 B. Look"
    assert (found.began_ms, found.connector) == (now - 70_000, "c")
    report(now, attempt=2)  # started again, and silent so far
    evaluation.evaluate(now + FRESH_MS)
    assert Incident.objects.filter(resolved_ms=0).count() == 1
    report(now + 5_000, {**LAG, "value": 10}, attempt=2)
    evaluation.evaluate(now + 100_000)
    assert Incident.objects.filter(resolved_ms=0).count() == 0


def test_the_api_tells_them_with_the_task(report: Reports) -> None:
    now = report.now
    report(now, LAG)
    found = Client(headers={"host": "localhost"}).get("/api/v1/connectors/c/tasks").json()["results"]
    assert found[0]["source_metrics"] == [{**LAG, "labels": {}}]


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0, "bytes", "0 B"),
        (5 * 1024**3, "bytes", "5.0 GiB"),
        (0.25, "seconds", "0.2 s"),
        (150, "seconds", "2 min"),
        (7_500, "seconds", "2 h 5 min"),
        (1234, "rows", "1,234 rows"),
        (0.5, "", "0.50"),
    ],
)
def test_values_are_written_for_people(value: float, unit: str, shown: str) -> None:
    assert format_value(value, unit) == shown
