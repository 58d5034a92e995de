"""The Proof tab: nothing is counted by looking, a count shows what it found and what it could not count."""

import json
import time
from typing import Any

import pytest
from django.test import Client

from ringfence.access.principal import ROLES, Principal, Right
from ringfence.dispatch import Refusal
from ringfence.history.models import ProofRun
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

FRAGMENT = {"hx-request": "true"}
TAB = "/ui/connectors/team-a/proof"


@pytest.fixture
def there(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("team-a", topic="t"))
    leader.start("team-a")
    return leader


def count(client: Client) -> Any:
    return client.post(f"{TAB}/count", headers=FRAGMENT)


def test_a_count_shows_its_verdict_its_reasons_and_two_files(client: Client, there: FakeLeader) -> None:
    assert "Nothing has been counted yet" in text(client.get(TAB))
    assert there.asked == []
    page = text(count(client))
    assert "Not all counted" in page
    assert "&lt;b&gt;cannot&lt;/b&gt; tell" in page
    assert "&lt;i&gt;x&lt;/i&gt;" in page
    assert "cannot be counted" in page
    assert text(client.get(f"{TAB}/run", headers=FRAGMENT)).count("Proof 1") == 1
    file = client.get(f"{TAB}/1/json")
    assert file["Content-Disposition"] == 'attachment; filename="proof-team-a-1.json"'
    assert json.loads(file.content)["report"]["counts"]["visible"] == 7
    assert "Verdict    incomplete" in client.get(f"{TAB}/1/txt").content.decode()
    assert client.get(f"{TAB}/1/exe").status_code == 404
    assert client.get(f"{TAB}/2/json").status_code == 404


def test_one_under_way_shows_how_far_it_is_and_asks_again(client: Client, there: FakeLeader) -> None:
    now_ms = int(time.time() * 1000)
    ProofRun.objects.create(
        connector="team-a", number=1, state="running", started_ms=now_ms, beat_ms=now_ms, doing="x", done=5, total=20
    )
    page = text(client.get(TAB))
    assert 'value="25"' in page
    assert "5 of 20" in page
    assert f"{TAB}/run?number=1" in page
    ProofRun.objects.update(beat_ms=now_ms - 60_000)
    page = text(client.get(f"{TAB}/run?number=1", headers=FRAGMENT))
    assert "does not report any more" in page
    assert "load delay" not in page, "nothing is asked again"


def test_a_refusal_is_said_and_only_who_operates_may_count(
    client: Client, there: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ringfence import middleware as middleware

    there.refusal = Refusal(503, "No worker reports")
    refused = count(client)
    assert (refused.status_code, "No worker reports" in text(refused)) == (503, True)
    viewer = Principal("eve", "session", (Right(ROLES["viewer"], "*"),))
    monkeypatch.setattr(middleware, "identify", lambda request: viewer)
    assert "`operate`" in text(count(client))
    assert client.get(TAB).status_code == 200
