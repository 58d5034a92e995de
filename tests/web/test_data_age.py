"""The age of a connector's data, and what is dated: every place has it, and none shows a number that nobody reports."""

import csv
import io
import re
import time
from datetime import UTC, datetime

import pytest
from django.test import Client

from ringfence.alerts import evaluation
from ringfence.alerts.models import Incident, Rule
from ringfence.heartbeats.cluster_health import Vitals
from ringfence.heartbeats.cluster_view import look
from ringfence.projection.models import Task
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

NAME = "flights"
AGE_S = 90


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector(NAME, topic="t"))
    leader.start(NAME, tasks=2)
    look._last, look._until = Vitals(), time.monotonic() + 600
    return leader


def report(age_s: float, **task: float) -> int:
    """Both tasks have reported so long ago; the data of one is a minute newer. Returns as of when all is committed."""
    now_ms = int(time.time() * 1000)
    as_of_ms = now_ms - AGE_S * 1000
    for number in (0, 1):
        Task.objects.filter(connector=NAME, number=number).update(
            reported_ms=now_ms - int(age_s * 1000), data_as_of_ms=as_of_ms + number * 60_000, **task
        )
    return as_of_ms


def dated(ms: int) -> str:
    """As the pages write a point in time."""
    return f'datetime="{datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")}"'


def test_every_place_has_the_age_of_the_oldest_data(client: Client, flights: FakeLeader) -> None:
    as_of_ms = report(0)
    for page in (f"/ui/connectors/{NAME}", "/ui/connectors", "/ui/"):
        assert dated(as_of_ms) in text(client.get(page)), page
    [row] = csv.DictReader(io.StringIO(client.get("/ui/connectors.csv").content.decode()))
    assert str(as_of_ms) in row.values()
    assert client.get(f"/api/v1/connectors/{NAME}").json()["data_as_of_ms"] == as_of_ms
    [listed] = client.get("/api/v1/connectors").json()["results"]
    assert listed["data_as_of_ms"] == as_of_ms
    metric = re.search(
        rf'ringfence_connector_data_age_seconds{{connector="{NAME}"}} ([\d.]+)', text(client.get("/metrics"))
    )
    assert metric is not None
    assert AGE_S <= float(metric[1]) < AGE_S + 30
    Rule.objects.create(name="late", kind="data-old", seconds=60)
    Rule.objects.create(name="patient", kind="data-old", seconds=600)
    evaluation.Evaluator("here", lambda _: None, lambda: True).once(int(time.time() * 1000))
    assert [each.rule and each.rule.name for each in Incident.objects.filter(connector=NAME)] == ["late"]


def test_home_tells_of_transactions_that_stay_open_and_of_others_not(client: Client, flights: FakeLeader) -> None:
    """Each commit of a second would move all numbers."""
    now_ms = int(time.time() * 1000)
    report(0, open_since_ms=now_ms - 2_000)
    assert "number-open" not in text(client.get("/ui/"))
    report(0, open_since_ms=now_ms - 20_000)
    home = " ".join(text(client.get("/ui/")).split())
    assert "<b>2</b> transactions open, the oldest" in home
    assert home.index("number-workers") < home.index("number-open"), "it comes last: it moves no other number"


def test_a_rate_that_nobody_has_reported_for_five_seconds_is_a_dash(client: Client, flights: FakeLeader) -> None:
    def rates() -> list[str]:
        page, rows = (text(client.get(f"/ui/connectors{path}")) for path in (f"/{NAME}", ""))
        head = re.search(r'id="rate-now">([^<]*)<', page)
        row = re.search(r'data-label="Records/s"[^>]*>\s*([^<\s]*)', rows)
        assert head is not None
        assert row is not None
        return [head[1].strip(), row[1].strip()]

    report(1, rate=20.0)
    assert rates() == ["40", "40"]
    report(6, rate=20.0)
    assert rates() == ["\N{EN DASH}", "\N{EN DASH}"]
    report(6, rate=0.0)
    assert rates() == ["0", "0"], "a task without records reports every ten seconds"
