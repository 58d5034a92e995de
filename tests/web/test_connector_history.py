"""The History tab: an axis for the page's script, and what was at one moment."""

import re
import time

import pytest
from django.test import Client

from ringfence.projection.models import Event, HistoryPoint
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
    assert f'data-from="{60 * MS}"' in page
    assert "&lt;b&gt;polling" in page
    assert "history.js" in page
    found = client.get(f"{TAB}/series?from={60 * MS}&to={63 * MS}").json()
    assert [point["records"] for point in found["points"]] == [60, 61, None]
    api = client.get(f"/api/v1/connectors/team-a/history?from={60 * MS}&to={63 * MS}").json()
    assert [point["state"] for point in api["points"]] == ["RUNNING", "RUNNING", None]
    assert "version 1 then" in text(client.get(f"{TAB}/moment?at=99999999999999"))
    assert "There are no events" in text(client.get(f"{TAB}/moment?at=1"))
    assert client.get(f"{TAB}/series?from=9&to=8").status_code == 400
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
    chosen = re.findall(r'aria-current="true"\s*>([^<]+)</a>', text(client.get(TAB)).partition('<h2 id="history')[2])
    assert chosen == [words]
