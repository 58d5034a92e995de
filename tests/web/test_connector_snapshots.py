"""The Snapshots tab: how far both kinds of snapshots are, and what is asked for of the incremental one."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client

from ringfence.access.principal import ROLES, Principal, Right
from ringfence.connectors.builtin.postgres.offsets import (
    IncrementalState,
    Plan,
    PlannedTable,
    QueuedTable,
    RangeProgress,
    plan_records,
    range_partition,
)
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_records.connector import ConnectorRecord
from ringfence.projection.models import Task
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

FRAGMENT = {"hx-request": "true"}
TAB = "/ui/connectors/team-a/snapshots"
ORDERS = PlannedTable(7, "public", "orders", ("id",), (("500",),), 1000)
LINES = PlannedTable(8, "public", "lines", ("id",), (), 400)


@pytest.fixture
def postgres(leader: FakeLeader) -> FakeLeader:
    config = {"name": "team-a", "connector.class": "PostgresSource", "topic.prefix": "shop"}
    leader.config.config(ConnectorRecord(ConnectorName("team-a"), config))
    leader.start("team-a")
    return leader


def commit(leader: FakeLeader, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
    leader.offsets.offset("team-a", dict(partition), dict(offset or {}))
    leader.project()


def commit_plan(leader: FakeLeader, **done: int) -> None:
    """`done`: rows of each table's first range, which is read."""
    plan = Plan("p", 1_000, (LINES, ORDERS))
    for record in plan_records("shop", plan):
        commit(leader, record.source_partition, record.source_offset)
    for table in plan.tables:
        if table.name in done:
            progress = RangeProgress("p", (), ("1",), done[table.name], True)
            commit(leader, range_partition("shop", table, 0), progress.as_offset())


def commit_queue(leader: FakeLeader, *, paused: bool = False) -> None:
    queue = (QueuedTable(7, "public.orders", 900), QueuedTable(8, "public.lines", 50))
    state = IncrementalState(queue, True, ("900",), ("300",), 300, 340, paused=paused, note="To be <read>.")
    commit(leader, {"server": "shop", "snapshot": "incremental"}, state.as_offset())


def measure(**gauges: float) -> None:
    measures = {
        "gauges": [{"name": name, "unit": "", "value": value, "description": "x"} for name, value in gauges.items()],
        "gauges_ms": 10**15,
    }
    Task.objects.filter(connector="team-a", number=0).update(measures=json.dumps(measures))


def sent(leader: FakeLeader) -> list[tuple[str, list[str]]]:
    bodies = [body for name, _, body in leader.asked if name == "send_signal"]
    return [(body["kind"], body["data"]["data-collections"]) for body in bodies]


def test_the_initial_snapshot_shows_tables_ranges_and_what_is_left(client: Client, postgres: FakeLeader) -> None:
    assert "None was planned" in text(client.get(TAB))
    commit_plan(postgres, orders=600, lines=400)
    measure(snapshot_rows_per_second=1234.0, snapshot_left=75.0)
    page = text(client.get(TAB))
    assert page.index("public.orders") < page.index("public.lines"), "what is left comes first"
    assert re.search(r'1 <span class="muted">of 2</span>', page)
    assert 'value="71"' in page, "1,000 of 1,400"
    assert "1,234" in page
    assert "1 min" in page
    assert "Read again" not in page
    progress = RangeProgress("p", (), ("1000",), 350, True)
    commit(postgres, range_partition("shop", ORDERS, 1), progress.as_offset())
    page = text(client.get(TAB))
    assert "Complete" in page
    assert page.count("Read again") == 2
    assert "<progress" not in page


def test_a_plan_that_cannot_be_read_says_what_to_do(client: Client, postgres: FakeLeader) -> None:
    commit(postgres, {"server": "shop", "snapshot": "plan", "part": 0}, {"parts": 2})
    assert "reset its offsets" in text(client.get(TAB))


def test_the_incremental_snapshot_shows_its_queue_and_what_it_measures(client: Client, postgres: FakeLeader) -> None:
    page = text(client.get(TAB))
    assert "Nothing is being read" in page
    assert "<progress" not in page
    commit_queue(postgres)
    page = text(client.get(TAB))
    assert 'value="34"' in page, "340 of 990"
    assert "To be &lt;read&gt;." in page
    assert f'{TAB}/pause"' in page
    measure(incremental_snapshot_rows_per_second=99.0, incremental_snapshot_left=30.0)
    assert "30.0 s" in text(client.get(TAB))
    commit_queue(postgres, paused=True)
    page = text(client.get(TAB))
    assert f'{TAB}/resume"' in page
    assert "Paused" in page


def test_acts_reach_the_task(client: Client, postgres: FakeLeader) -> None:
    again = text(client.get(f"{TAB}/start?tables=public%5C.orders", headers=FRAGMENT))
    assert "public\\.orders</textarea>" in again
    started = client.post(f"{TAB}/start", {"tables": "public\\.orders\r\n\n shop\\..* \n"}, headers=FRAGMENT)
    assert "Incremental snapshot requested" in text(started)
    for act in ("pause", "resume"):
        assert client.post(f"{TAB}/{act}", {"tables": "x"}, headers=FRAGMENT).status_code == 200
    question = text(client.get(f"{TAB}/stop?table=public%5C.orders", headers=FRAGMENT))
    assert "Leave out public.orders?" in question
    assert 'value="public\\.orders"' in question
    client.post(f"{TAB}/stop", {"table": "public\\.orders"}, headers=FRAGMENT)
    assert client.post(f"{TAB}/stop").headers["Location"] == TAB, "without a script the tab is shown again"
    assert sent(postgres) == [
        ("execute-snapshot", ["public\\.orders", "shop\\..*"]),
        ("pause-snapshot", []),
        ("resume-snapshot", []),
        ("stop-snapshot", ["public\\.orders"]),
        ("stop-snapshot", []),
    ]


def test_refusals_are_said_and_nothing_is_sent(client: Client, postgres: FakeLeader) -> None:
    for tables, words in (("", "must name the tables"), ("(", "not a regular expression")):
        refused = client.post(f"{TAB}/start", {"tables": tables}, headers=FRAGMENT)
        assert (refused.status_code, words in text(refused)) == (400, True)
        assert f"{tables}</textarea>" in text(refused), "what was typed is kept"
    commit(postgres, {"server": "shop", "snapshot": "incremental"}, {"queue": 7})
    page = text(client.get(TAB))
    assert "Delete it: stop the connector" in page
    assert re.search(r'id="start-snapshot"[^>]*disabled', page)
    assert f"{TAB}/start" not in page
    refused = client.post(f"{TAB}/start", {"tables": "t"}, headers=FRAGMENT)
    assert (refused.status_code, "Delete it: stop the connector" in text(refused)) == (409, True)
    assert sent(postgres) == []


def test_other_connectors_have_no_such_tab(client: Client, leader: FakeLeader) -> None:
    leader.config.config(connector("team-a", topic="t"))
    leader.start("team-a")
    gone = client.get(TAB)
    assert (gone.status_code, "Connector team-a has no Snapshots" in text(gone)) == (404, True)
    assert client.get(TAB, headers=FRAGMENT).status_code == 404
    refused = client.post(f"{TAB}/pause", headers=FRAGMENT)
    assert (refused.status_code, "only PostgresSource" in text(refused)) == (400, True)


def test_who_may_only_look_is_offered_nothing_and_a_foreign_page_cannot_act(
    client: Client, postgres: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ringfence import middleware as middleware

    strict = Client(enforce_csrf_checks=True, headers={"host": "localhost"})
    forged = strict.post(f"{TAB}/start", {"tables": "t"})
    assert (forged.status_code, "CSRF" in text(forged)) == (403, True)
    commit_queue(postgres)
    viewer = Principal("eve", "session", (Right(ROLES["viewer"], "*"),))
    monkeypatch.setattr(middleware, "identify", lambda request: viewer)
    page = text(client.get(TAB))
    assert page.count("You need the offsets permission") == 3
    assert "Leave out" not in page
    for act in ("start", "pause", "resume", "stop"):
        assert client.post(f"{TAB}/{act}", {"tables": "t"}, headers=FRAGMENT).status_code == 403
    assert sent(postgres) == []
