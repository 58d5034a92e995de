"""The Overview: the last hour of each task as strips with ticks, in words, and as a table."""

import csv
import io
import json
import re
import time
from dataclasses import replace

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ringfence.dispatch import Refusal
from ringfence.fencing.topics.status import PollRetry, State
from ringfence.projection.models import Connector, Minute, RecordTotals, SourceOffset, Task, Worker
from ringfence.projection.task_minutes import Cell
from ringfence.web.connector.overview import WIDTH, strip
from ringfence.web.state_badges import Severity
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector, task_status

PAGE = "/ui/connectors/flights"


def test_a_strip_joins_equal_minutes_and_ticks_what_happened() -> None:
    cells = [Cell(minute, "RUNNING", commits=minute % 2) for minute in range(57)]
    cells += [Cell(57, "FAILED"), Cell(58, "RESTARTING", restarts=1), Cell(59, "")]
    drawn = strip(0, cells)
    assert [tone for tone, _ in drawn.cells] == [Severity.OK, Severity.BAD, Severity.MOTION]
    assert dict(drawn.cells)[Severity.OK].count("M") == 1
    assert drawn.commits.count("M") == 28
    assert drawn.restarts.count("M") == 1
    assert drawn.fences == ""
    assert drawn.summary == "57 min running, 1 min failed, 1 min restarting; 28 commits; 1 restart"
    for _, path in drawn.cells:
        for left, width in re.findall(r"M(\d+) \d+h(\d+)", path):
            assert 0 <= int(left) <= int(left) + int(width) <= WIDTH
    assert strip(0, [Cell(n) for n in range(60)]).summary == "nothing is known"


def lagging() -> dict[str, object]:
    """What a task measured just now."""
    gauge = {"name": "lag", "unit": "bytes", "description": "How far behind", "value": 3 << 30, "limit": 1 << 30}
    return {"gauges_ms": int(time.time() * 1000), "gauges": [{**gauge, "remedy": "Look at it."}]}


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("flights", topic="t"))
    leader.start("flights", tasks=2)
    return leader


def test_the_last_hour_is_drawn_told_and_listed(client: Client, flights: FakeLeader) -> None:
    minute = int(time.time()) // 60
    Minute.objects.create(
        connector="flights", task=0, minute=minute - 3, state="RUNNING", began="RUNNING", records=1200
    )
    Minute.objects.create(connector="flights", task=1, minute=minute - 2, state="FAILED", began="RUNNING", restarts=1)
    Minute.objects.create(connector="flights", task=-1, minute=minute - 2, state="RUNNING", began="RUNNING", fences=1)
    Task.objects.filter(number=1).update(
        measures=json.dumps({"commit_times_ms": {"min": 1, "max": 40, "sum": 60, "count": 4}, **lagging()}),
        reported_ms=int(time.time() * 1000),
    )
    page = text(client.get(PAGE))
    assert page.count('class="task-strip"') == 3
    assert re.search(r'aria-label="Task 1, last 60 minutes: [^"]*1 min failed; 1 restart"', page)
    assert re.search(r'aria-label="flights, last 60 minutes: [^"]*1 min failed; 1 fence"', page), "the worst of all"
    assert page.count('class="tick fence"') == 1
    assert "1,200 records" in page
    assert "1,200/min" in page
    assert "15.0 ms" in page
    assert "40.0 ms" in page
    assert re.search(r"How far behind.*More than\s+1.0 GiB.\s+Look at it..*3.0 GiB", page, re.DOTALL)
    assert "style=" not in page


def test_the_overview_costs_the_same_for_many_tasks_and_stays_small(client: Client, flights: FakeLeader) -> None:
    with CaptureQueriesContext(connection) as few:
        client.get(PAGE)
    flights.config.config(connector("wide"))
    flights.start("wide", tasks=120, state=State.FAILED)
    minute = int(time.time()) // 60
    Minute.objects.bulk_create(
        Minute(connector="wide", task=task, minute=minute - n, state=("RUNNING", "FAILED")[n % 2], began="", commits=1)
        for task in range(50)
        for n in range(60)
    )
    with CaptureQueriesContext(connection) as many:
        page = text(client.get("/ui/connectors/wide"))
    assert len(many) <= len(few)
    assert page.count('class="task-strip"') == 50
    assert len(page) < 450_000


@pytest.mark.parametrize(
    ("offsets", "mode", "reported"), [(1, "enabled", False), (0, "enabled", True), (1, "disabled", True)]
)
def test_a_count_that_only_reports_tell_is_called_so(
    client: Client, flights: FakeLeader, offsets: int, mode: str, reported: bool
) -> None:
    for number in range(offsets):
        SourceOffset.objects.create(connector="flights", partition=f'{{"file":"{number}"}}', offset='{"position":1}')
    Worker.objects.create(worker="w1", incarnation="i", mode=mode, slots=1, version="1", since_ms=0)
    assert "(reported)" not in text(client.get(PAGE))  # there is nothing yet that could be
    Connector.objects.filter(name="flights").update(records_total=3)
    RecordTotals.objects.create(connector="flights", task=0, records=3)
    for page in (PAGE, f"{PAGE}/tasks", "/ui/connectors"):
        assert ("(reported)" in text(client.get(page))) is reported, page
    [row] = csv.DictReader(io.StringIO(client.get("/ui/connectors.csv").content.decode()))
    assert (row["records"], row["records_reported"]) == ("3", str(reported).lower())
    for path in ("", "/tasks"):
        told = client.get(f"/api/v1/connectors/flights{path}").json()
        first = told["results"][0] if path else told
        assert (first["records_total"], first["records_reported"]) == (3, reported)
    assert "aborted" not in text(client.get(PAGE)).partition('id="records-in-all"')[2][:400]
    Connector.objects.filter(name="flights").update(aborted_records_total=2)
    assert "2 aborted" in text(client.get(PAGE)).partition('id="records-in-all"')[2][:400]


def test_the_page_asks_a_worker_what_the_connector_guarantees(client: Client, leader: FakeLeader) -> None:
    leader.config.config(connector("flights", topic="t", pin="hunter22"))
    leader.start("flights", tasks=1)
    asks = re.search(r'<dd id="guarantee-\d+" data-kept hx-get="([^"]+)" hx-trigger="load">', text(client.get(PAGE)))
    assert asks is not None
    shown = text(client.get(asks[1]))
    assert '<span class="tag">At least once</span>' in shown
    assert "Set &lt;b&gt;key&lt;/b&gt;" in shown
    assert "hunter22" not in shown
    leader.refusal = Refusal(503, "No worker answers")
    assert "Not known now: No worker answers" in text(client.get(asks[1]))
    assert client.get("/ui/connectors/nowhere/guarantee").status_code == 404


def test_a_webhook_says_where_requests_go(client: Client, leader: FakeLeader) -> None:
    leader.config.config(connector("shop events", **{"connector.class": "WebhookSource"}), connector("flights"))
    leader.start("shop events")
    leader.start("flights")
    page = text(client.get("/ui/connectors/shop%20events"))
    assert '<code id="hook-url">http://localhost/hooks/shop%20events</code>' in page
    assert "hook-url" not in text(client.get(PAGE))


def test_a_source_that_cannot_be_read_is_said_in_head_list_and_overview(client: Client, leader: FakeLeader) -> None:
    leader.config.config(connector("flights", topic="t", pin="hunter22"))
    leader.start("flights", tasks=2)
    now = int(time.time() * 1000)
    refused = PollRetry("no route to hunter22 <b>", now - 61_000, 7, now + 4_000)
    for row in Task.objects.all():
        status = task_status("flights", row.number, State.RUNNING, row.generation)
        leader.status.status(replace(status, attempt=row.attempt, since_ms=now, retry=refused))
    leader.project()
    page = text(client.get(PAGE))
    card = page[page.index('id="refusal-1"') :]
    assert "no route to [hidden] &lt;b&gt;" in card
    assert "2 tasks, the same message" in card
    assert "7 attempts so far" in card
    assert "hunter22" not in page
    assert "Retrying" in text(client.get("/ui/connectors"))
    home = text(client.get("/ui/"))
    assert "nothing is wrong" not in home.lower()
    assert "no route to [hidden]" in home
    assert text(client.get("/ui/connectors?state=attention")).count("flights")
    assert "Retrying" in text(client.get(f"{PAGE}/tasks"))
