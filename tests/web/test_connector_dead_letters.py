"""The Dead letters tab: how to turn it on, letters without secrets and without live markup, a question, an outcome."""

from typing import Any

import pytest
from django.test import Client

from ringfence.access.principal import ROLES, Principal, Right, Verb
from ringfence.audit.models import AuditEntry
from ringfence.dispatch import Refusal
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

FRAGMENT = {"hx-request": "true"}
TAB = "/ui/connectors/flights/dead-letters"
KEPT = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("flights", topic="t", pin="hunter22", **KEPT))
    leader.config.config(connector("plain", topic="t"))
    leader.start("flights")
    leader.start("plain")
    return leader


def post(client: Client, path: str, **sent: Any) -> Any:
    return client.post(f"{TAB}/{path}", sent, headers=FRAGMENT)


def last_entry() -> AuditEntry:
    entry = AuditEntry.objects.order_by("pk").last()
    assert entry is not None
    return entry


def test_the_tab_asks_nobody_and_says_how_to_keep_letters(client: Client, flights: FakeLeader) -> None:
    page = text(client.get(TAB))
    assert "<code>bad</code>" in page
    assert 'id="read-letters"' in page
    off = text(client.get("/ui/connectors/plain/dead-letters"))
    assert "keeps no dead letters" in off
    assert "errors.deadletterqueue.topic.name" in off
    assert 'id="read-letters"' not in off
    assert flights.asked == []


def test_letters_show_what_failed_and_no_secret(client: Client, flights: FakeLeader) -> None:
    page = text(post(client, "records", stage="VALUE_CONVERTER"))
    for shown in (
        "Waiting",
        "Replayed",
        "Not decided",
        "at most 10",
        "a &lt;i&gt;line&lt;/i&gt; [hidden]",
        "ValueError",
    ):
        assert shown in page
    assert "&lt;b&gt;[hidden]&lt;/b&gt; is no number" in page
    assert "hunter22" not in page
    assert "<i>line" not in page
    assert 'value="0:7:t"' in page
    assert 'value="0:5:t"' not in page, "it was replayed"
    assert 'name="before" value="0:3"' in page
    assert (last_entry().action, last_entry().message) == (
        "view-data",
        "looked at dead letters in topic bad as read_committed",
    )
    assert "older-letters" not in text(post(client, "records", before="0:3"))
    assert flights.asked[-1][2]["before"] == [[0, 3]]
    for wrong in ({"stage": "x"}, {"level": "x"}, {"before": "x"}):
        assert post(client, "records", **wrong).status_code == 400


def test_a_replay_is_asked_for_and_has_an_outcome_for_each(client: Client, flights: FakeLeader) -> None:
    chosen = ["0:7:t", "0:3:t", "1:4:<i>u</i>"]
    question = text(post(client, "question", what="chosen", letter=chosen))
    assert "Replays 3 records into topics <b>&lt;i&gt;u&lt;/i&gt;</b>, <b>t</b>." in question
    assert flights.asked == []
    assert post(client, "question", what="chosen").status_code == 400
    done = post(client, "replay", what="chosen", letter=chosen, reason="mended")
    assert (done["HX-Retarget"], done["HX-Trigger"]) == ("#letters", '{"ringfence-close": null}')
    assert "1 written to t, 2 failed again" in text(done)
    assert "hunter22" not in text(done)
    assert flights.asked[-1][2]["chosen"] == {"places": [[0, 7], [0, 3], [1, 4]]}
    assert flights.asked[-1][2]["told"]["reason"] == "mended"
    message = "mended. replayed dead letters of bad: 1 written to t, 2 failed again"
    assert (last_entry().action, last_entry().message) == ("operate", message)

    question = text(post(client, "question", **{"what": "all", "stage": "KEY_CONVERTER", "class": "E"}))
    assert "that failed at KEY_CONVERTER" in question
    done = text(post(client, "replay", **{"what": "all", "stage": "KEY_CONVERTER", "class": "E"}))
    assert "4 more match" in done
    assert flights.asked[-1][2]["chosen"] == {"stage": "KEY_CONVERTER", "class": "E"}

    flights.refusal = Refusal(409, "A newer replay of connector flights has begun")
    refused = post(client, "replay", what="all")
    assert refused.status_code == 409
    assert "A newer replay" in text(refused)
    for wrong in (["x"], ["0:-1:t"], ["0:1:t"] * 501, ["9999999999:1:t"]):
        assert post(client, "replay", what="chosen", letter=wrong).status_code == 400


def test_each_act_takes_its_verb(client: Client, flights: FakeLeader, monkeypatch: pytest.MonkeyPatch) -> None:
    from ringfence import middleware as middleware

    viewer = Principal("eve", "session", (Right(ROLES["viewer"], "*"),))
    monkeypatch.setattr(middleware, "identify", lambda request: viewer)
    assert "You need the permission <code>view-data</code>" in text(client.get(TAB))
    for path, verb in (("records", Verb.VIEW_DATA), ("question", Verb.OPERATE), ("replay", Verb.OPERATE)):
        refused = post(client, path, what="all")
        assert refused.status_code == 403
        assert f"`{verb}`" in text(refused)
    assert flights.asked == []
