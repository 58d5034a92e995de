"""The History tab: an axis for the page's script, and what was at one moment."""

import re
import time

import pytest
from django.test import Client

from ringfence.access.principal import EVERYBODY_HERE, Principal, Right, Verb
from ringfence.api.v1.history import Scope, find_marks
from ringfence.audit.models import AuditEntry, Outcome
from ringfence.history.models import ConfigVersion
from ringfence.projection.models import Event, HistoryPoint, LogLine, Tombstone, pack
from ringfence.projection.status_rows import TOPIC_REPLACED, WORKER_GONE
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

TAB = "/ui/connectors/team-a/history"
MS = 60_000


def test_the_series_and_a_moment_are_told_and_a_wrong_range_is_refused(client: Client, leader: FakeLeader) -> None:
    leader.config.config(connector("team-a", topic="t"))
    leader.start("team-a")
    for minute in (60, 61):
        HistoryPoint.objects.create(step=1, connector="", minute=minute)
        HistoryPoint.objects.create(step=1, connector="team-a", minute=minute, records=minute, state="RUNNING")
    Event.objects.create(connector="team-a", type="task", time_ms=61 * MS, summary="Task 0: <b>polling</b>")
    page = text(client.get(f"{TAB}?from={60 * MS}&to={64 * MS}&at={61 * MS}"))
    assert f"&quot;from&quot;:{60 * MS}" in page
    assert "&quot;values&quot;:[60,61,null,null]" in page
    assert "&lt;b&gt;polling" in page
    assert "axis.js" in page
    api = client.get(f"/api/v1/connectors/team-a/history?from={60 * MS}&to={63 * MS}").json()
    assert [point["state"] for point in api["points"]] == ["RUNNING", "RUNNING", None]
    assert "version 1 then" in text(client.get(f"{TAB}/moment?at=99999999999999"))
    assert "There are no events" in text(client.get(f"{TAB}/moment?at=1"))
    assert ">1 h</a>" in text(client.get(f"{TAB}?from=9&to=8")), "the default in place of an invalid range"
    for wrong in ("from=9&to=8", "from=x", "step=1"):
        assert client.get(f"/api/v1/connectors/team-a/history?{wrong}").status_code == 400


@pytest.mark.parametrize(("age_minutes", "words"), [(5, "1 h"), (90, "6 h"), (600, "24 h"), (9000, "24 h")])
def test_a_young_connector_opens_with_a_range_that_shows_it(
    client: Client, leader: FakeLeader, age_minutes: int, words: str
) -> None:
    leader.config.config(connector("team-a", topic="t"))
    leader.start("team-a")
    minute = int(time.time()) // 60 - age_minutes
    HistoryPoint.objects.create(step=1, connector="team-a", minute=minute, state="RUNNING")
    chosen = re.findall(r'aria-current="true"\s*>([^<]+)</a>', text(client.get(TAB)).partition('<h2 id="axis')[2])
    assert chosen == [words]


def test_the_axis_has_changes_by_whom_deaths_and_deletions_for_those_who_may_know(
    client: Client, leader: FakeLeader
) -> None:
    leader.config.config(connector("team-a", topic="t"))
    leader.start("team-a")
    now = int(time.time() * 1000)
    ConfigVersion.objects.create(connector="team-a", number=7, config_offset=1, time_ms=now - MS, user="ann", config="")
    body = pack({"kind": WORKER_GONE, "worker": "worker-1"})
    for name in ("team-a", "team-b"):
        Event.objects.create(connector=name, type="warning", time_ms=now - MS, summary="w", body=body)
    body = pack({"kind": TOPIC_REPLACED, "topic": "t"})
    Event.objects.create(connector="team-a", type="warning", time_ms=now - MS, summary="w", body=body)
    Tombstone.objects.create(connector="team-gone", config_offset=1, time_ms=now - MS)
    AuditEntry.objects.create(
        connector="team-a", user="bob", via="session", action="operate", request="PUT /connectors/team-a/pause",
        time_ms=now - MS, outcome=Outcome.DONE, completed=True,
    )  # fmt: skip
    told = [mark["text"] for mark in find_marks(Scope(EVERYBODY_HERE), now - 2 * MS, now)]
    assert sorted(told) == [
        "team-a: Configuration version 7, by ann",
        "team-a: Paused, by bob",
        "team-a: Topic t was deleted and created again",
        "team-gone: Deleted",
        "worker-1 is gone or was started again",
    ]
    page = text(client.get("/ui/"))
    assert "5 changes and what else happened" in page
    assert "team-a: Configuration version 7, by ann" in page
    viewer = Principal("eve", "session", (Right(frozenset({Verb.VIEW}), "team-a"),))
    told = [mark["text"] for mark in find_marks(Scope(viewer, "team-a"), now - 2 * MS, now)]
    assert "Configuration version 7" in told
    assert not any("ann" in each or "bob" in each for each in told)
    assert [mark["text"] for mark in find_marks(Scope(viewer), now - 2 * MS, now) if mark["kind"] == "delete"] == []


def test_a_range_cuts_timeline_and_logs_and_is_compared_with_the_period_before(
    client: Client, leader: FakeLeader
) -> None:
    leader.config.config(connector("team-a", topic="t"))
    leader.start("team-a")
    minute = int(time.time()) // 60 - 200
    for number in range(120):
        records = 100 if number < 60 else 150
        for name in ("", "team-a"):
            HistoryPoint.objects.create(
                step=1, connector=name, minute=minute + number, records=records, state="RUNNING", age_ms=4000
            )
    for at, article, word in ((30, "an", "early"), (90, "a", "late")):
        time_ms = (minute + at) * MS
        Event.objects.create(connector="team-a", type="warning", time_ms=time_ms, summary=f"{article} {word} event")
        LogLine.objects.create(
            connector="team-a", time_ms=time_ms, level="INFO", severity=20, message=f"{article} {word} line"
        )
    query = f"from={(minute + 60) * MS}&to={(minute + 120) * MS}"
    page = text(client.get(f"{TAB}?{query}"))
    assert "9,000 records, 50 % more than in the period before; data at most 4 s old." in page
    assert 'class="before"' in page
    for word in ("event", "line"):
        assert (f"a late {word}" in page, f"an early {word}" in page) == (True, False)
    for tab in ("timeline", "logs"):
        cut, whole = (text(client.get(f"/ui/connectors/team-a/{tab}?{each}")) for each in (query, ""))
        assert ("a late" in cut, "an early" in cut) == (True, False)
        assert ("a late" in whole, "an early" in whole) == (True, True)
    home = text(client.get(f"/ui/?{query}"))
    assert "What happened then" in home
    assert "an early event" not in home
    assert "a late event" in home
