"""The tabs of a connector: each has an address, shows what was reported and nothing else, and no secret."""

import json
import re
import time
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ringfence.access.principal import Principal, Right, Verb
from ringfence.audit.models import AuditEntry
from ringfence.history.models import ConfigVersion
from ringfence.projection.models import Connector, Event, GenerationRow, Task
from ringfence.projection.projector import Projection
from ringfence.web.connector import generations, timeline
from ringfence.web.connector import tab_page as connector_frame
from ringfence.web.connector.transaction_lanes import PAGE_SIZE, SPAN_MS, WIDTH, lanes
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import Topic, connector

FRAGMENT = {"hx-request": "true"}
TABS = {"transactions": "exactly-once", "generations": "exactly-once", "timeline": "history"}
"""Pages, and the tabs that they belong to."""


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("flights", topic="t", **{"db.password": "hunter22"}))
    leader.start("flights", tasks=2)
    return leader


def reported(number: int = 0, **fields: Any) -> int:
    """Live numbers of the attempt that runs; returns the time of now."""
    now_ms = int(time.time() * 1000)
    task = Task.objects.get(connector="flights", number=number)
    live = {"live_generation": task.generation, "live_attempt": task.attempt, "reported_ms": now_ms}
    Task.objects.filter(pk=task.pk).update(**live, **fields)
    return now_ms


@pytest.mark.parametrize("tab", TABS)
def test_each_tab_is_a_page_and_a_fragment(client: Client, flights: FakeLeader, tab: str) -> None:
    page = text(client.get(f"/ui/connectors/flights/{tab}"))
    fragment = text(client.get(f"/ui/connectors/flights/{tab}", headers=FRAGMENT))
    assert page.startswith("<!DOCTYPE html>")
    assert "<html" not in fragment
    assert "<script" not in fragment
    current = "page" if tab == "transactions" else "true"
    assert re.search(rf'id="group-{TABS[tab]}" [^>]*aria-current="{current}"', page)
    assert f'id="tab-{tab}"' not in page  # it is open already
    assert "style=" not in page
    assert "hunter22" not in page
    assert client.get(f"/ui/connectors/nobody/{tab}").status_code == 404


def test_a_lane_shows_what_was_committed_aborted_and_is_open(client: Client, flights: FakeLeader) -> None:
    now_ms = int(time.time() * 1000)
    told = [[0, 9, now_ms - 9_000, now_ms - 6_000, 1, 0, 40], [0, 9, now_ms - 6_000, now_ms - 4_000, 0, 1, 2]]
    reported(
        recent=json.dumps([[0, 9], *told]),
        open_since_ms=now_ms - 3_000,
        open_records=17,
        producer_id=4711,
        epoch=3,
        measures='{"transactional_id":"group-flights-0","transactions_v2":true}',
    )
    page = text(client.get("/ui/connectors/flights/transactions"))
    for path in ("committed", "aborted", "open"):
        assert page.count(f'<path class="{path}"') == 1
    assert "Task 0, last 2 minutes: 1 committed, 1 aborted, 42 records; one is open with 17 records" in page
    for shown in ("group-flights-0", "4711", "3,000 ms", "17 records", "not reported yet"):
        assert shown in page
    assert "the broker refuses late requests" in page
    assert 'id="transactions-v1"' not in page
    reported(measures='{"transactions_v2":false}')
    page = text(client.get("/ui/connectors/flights/transactions"))
    assert "have no transactions v2" in page
    assert 'id="transactions-v2"' not in page


def test_a_lane_shows_the_time_between_two_attempts(client: Client, flights: FakeLeader) -> None:
    now_ms = int(time.time() * 1000)
    told = [[0, 9, now_ms - 30_000, now_ms - 29_000, 1, 0, 40], [0, 0, now_ms - 29_000, now_ms - 9_000, 0, 0, 0]]
    reported(recent=json.dumps(told))
    page = text(client.get("/ui/connectors/flights/transactions"))
    assert page.count('<path class="between"') == 1
    assert page.count('<path class="committed"') == 1
    assert "1 committed, 0 aborted, 40 records, 1 interruption" in page
    assert "20,000 ms" not in page, "it is no transaction of the table"


def test_lanes_move_on_while_a_task_runs_with_nothing_open(client: Client, flights: FakeLeader) -> None:
    """After a restart the next report may come late, and nothing else tells of it."""
    reported()
    moves_on = 'hx-trigger="load delay:2s"'
    assert moves_on in text(client.get("/ui/connectors/flights/transactions"))
    Task.objects.update(state="PAUSED")
    assert moves_on not in text(client.get("/ui/connectors/flights/transactions"))


def test_an_attempt_that_has_ended_has_nothing_open(client: Client, flights: FakeLeader) -> None:
    reported(open_since_ms=5, open_records=1)
    assert 'class="open"' in text(client.get("/ui/connectors/flights/transactions"))
    Task.objects.update(attempt=9)
    assert 'class="open"' not in text(client.get("/ui/connectors/flights/transactions"))
    Task.objects.update(attempt=1, state="FAILED")
    assert 'class="open"' not in text(client.get("/ui/connectors/flights/transactions"))


def test_bars_stay_inside_their_lane(flights: FakeLeader) -> None:
    now_ms = 10 * SPAN_MS
    spans = [(0, now_ms - SPAN_MS + 1), (0, now_ms + 5_000), (now_ms - 1, now_ms)]
    recent = json.dumps([[0, 1, began, ended, 1, 0, 3] for began, ended in spans])
    (lane,) = lanes([Task(connector="flights", number=0, state="RUNNING", recent=recent)], now_ms)
    for left, right in re.findall(r"M(-?\d+) 48V\d+H(-?\d+)V", lane.committed_path):
        assert -WIDTH / 100 <= int(left) <= int(right) + 1 <= WIDTH + 1


def test_many_lanes_come_in_pages_and_stay_small(client: Client, flights: FakeLeader) -> None:
    flights.config.config(connector("wide"))
    flights.start("wide", tasks=PAGE_SIZE + 3)
    now_ms = int(time.time() * 1000)
    recent = json.dumps([[0, 9, now_ms - n * 1000 - 900, now_ms - n * 1000, 9, 0, 1000 + n] for n in range(120)])
    Task.objects.filter(connector="wide").update(recent=recent)
    first, second = (text(client.get(f"/ui/connectors/wide/transactions?page={n}")) for n in (1, 2))
    assert first.count('class="lane"') == PAGE_SIZE
    assert second.count('class="lane"') == 3
    assert 'href="?page=2"' in first
    assert len(first) < 150_000


def test_the_timeline_has_events_and_the_audit_trail_newest_first(client: Client, flights: FakeLeader) -> None:
    Event.objects.create(connector="flights", type="log", time_ms=3_000, summary="third, with hunter22")
    Event.objects.create(connector="other", type="log", time_ms=3_500, summary="not mine")
    AuditEntry.objects.create(
        connector="flights",
        time_ms=2_000,
        user="ann",
        via="session",
        action="edit",
        outcome="done",
        changed='["topic"]',
    )
    Event.objects.create(connector="flights", type="round", time_ms=1_000, summary="first")
    page = text(client.get("/ui/connectors/flights/timeline"))
    assert page.index("third, with [hidden]") < page.index("ann (session): edit, done") < page.index(">first<")
    assert "Settings: topic." in page
    assert "not mine" not in page
    audit = text(client.get("/ui/connectors/flights/timeline?kind=audit"))
    assert "ann (session)" in audit
    assert "third" not in audit
    rounds = text(client.get("/ui/connectors/flights/timeline?kind=round"))
    assert ">first<" in rounds
    assert "ann (session)" not in rounds
    assert client.get("/ui/connectors/flights/timeline?kind=%3Cx&page=-4").status_code == 200


def test_rows_that_come_in_while_a_timeline_is_read_wait_until_they_are_wanted(
    client: Client, flights: FakeLeader
) -> None:
    """They would move the others."""
    path = "/ui/connectors/flights/timeline"
    for number in (1, 2):
        at_ms = int(time.time() * 1000) + number
        Event.objects.create(connector="flights", type="log", time_ms=at_ms, summary=f"line {number}")
    page = text(client.get(path))
    (until,) = re.findall(r'name="until" value="(\d+)" data-live-value>', page)
    Event.objects.create(connector="flights", type="log", time_ms=int(until) + 1, summary="line 3")
    later = text(client.get(f"{path}?until={until}"))
    assert ("line 2" in later, "line 3" in later, "1 new: show" in later) == (True, False, True)
    assert f'value="{until}"' in later, "it stays so"
    shown = text(client.get(path))
    assert ("line 3" in shown, "new: show" in shown) == (True, False)
    assert "timeline-until" not in text(client.get(f"{path}?from=1&to=2")), "where there is no row, none moves"


def test_the_timeline_comes_in_pages_at_the_same_cost(client: Client, flights: FakeLeader) -> None:
    with CaptureQueriesContext(connection) as few:
        client.get("/ui/connectors/flights/timeline")
    Event.objects.bulk_create(
        Event(connector="flights", type="log", time_ms=n, summary=f"line {n}.") for n in range(120)
    )
    with CaptureQueriesContext(connection) as many:
        first = text(client.get("/ui/connectors/flights/timeline?kind=log"))
    assert len(many) <= len(few) + 2
    second = text(client.get("/ui/connectors/flights/timeline?kind=log&page=2"))
    assert "line 119." in first
    assert "line 70." in first
    assert "line 69." not in first
    assert "line 69." in second
    assert 'href="?kind=log&amp;page=2"' in first or 'href="?kind=log&page=2"' in first


def test_a_connector_that_is_gone_keeps_no_tab(client: Client, flights: FakeLeader) -> None:
    Connector.objects.update(known=False)
    for tab in TABS:
        assert client.get(f"/ui/connectors/flights/{tab}").status_code == 404
        assert client.get(f"/ui/connectors/flights/{tab}", headers=FRAGMENT).status_code == 200


def test_a_generation_tells_what_changed_and_keeps_secrets(client: Client, flights: FakeLeader) -> None:
    flights.config.config(connector("flights", topic="u", **{"db.password": "hunter33"}))
    flights.start("flights", tasks=3)
    page = text(client.get("/ui/connectors/flights/generations"))
    newest, oldest = sorted(GenerationRow.objects.values_list("generation", flat=True), reverse=True)
    assert page.index(f'id="g{newest}"') < page.index(f'id="g{oldest}"')
    changes = page[page.index(f'id="g{newest}"') : page.index(f'id="g{oldest}"')]
    assert "version 2" in changes
    assert re.findall(r"<code>([^<]*)</code>", changes) == ["db.password", "[hidden]", "[hidden]", "topic", "t", "u"]
    assert "The first known generation." in page
    assert "hunter" not in page


def test_a_round_tells_what_it_fenced_with_whose_credentials_and_after_which_failures(
    client: Client, flights: FakeLeader
) -> None:
    number = GenerationRow.objects.get().generation
    events = Topic()
    told = {"type": "round", "connector": "flights", "generation": number}
    events.event(**told, stage="failed", message="The broker is away, says hunter22. It is tried again in 0.25 s")
    fenced = [{"id": "group-flights-0", "producer_id": 4711, "epoch": 9}]
    events.event(**told, stage="done", ms=31, fenced=fenced, credentials="the old generation's credentials")
    Projection("events", "events", "id").apply(events.records, events.end)
    page = text(client.get("/ui/connectors/flights/generations"))
    for shown in (
        "group-flights-0",
        "4711",
        "1 id in 31 ms",
        "the old generation&#x27;s credentials",
        "tried again in",
    ):
        assert shown in page
    assert '<dd class="bad-text">1</dd>' in page
    assert "hunter22" not in page


def test_a_first_round_says_that_there_was_nothing_to_fence(client: Client, flights: FakeLeader) -> None:
    events = Topic()
    number = GenerationRow.objects.get().generation
    events.event(type="round", connector="flights", generation=number, stage="done", ms=31, fenced=[])
    Projection("events", "events", "id").apply(events.records, events.end)
    page = text(client.get("/ui/connectors/flights/generations"))
    assert "nothing to fence" in page
    assert "0 id" not in page


def test_who_may_not_read_configurations_sees_no_changes(
    client: Client, flights: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    flights.config.config(connector("flights", topic="u"))
    flights.start("flights")
    viewer = Principal("eve", "session", (Right(frozenset({Verb.VIEW}), "*"),))
    for module in (generations, timeline, connector_frame):
        monkeypatch.setattr(module, "principal_of", lambda request: viewer)
    page = text(client.get("/ui/connectors/flights/generations"))
    assert "What changed" not in page
    assert "You need the permission <code>view-config</code>" in page
    AuditEntry.objects.create(connector="flights", time_ms=2_000, user="ann", via="session", action="edit")
    assert "ann (session)" not in text(client.get("/ui/connectors/flights/timeline"))


def test_a_configuration_that_was_not_kept_is_not_called_the_same(client: Client, flights: FakeLeader) -> None:
    ConfigVersion.objects.all().delete()
    flights.config.config(connector("flights", topic="u"))
    flights.start("flights")
    page = text(client.get("/ui/connectors/flights/generations"))
    assert "The configuration of the previous generation was not kept." in page
    assert "The same configuration" not in page
