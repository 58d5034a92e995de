"""The Offsets tab: changes only while stopped, with a preview, a reason, a snapshot first, and an undo."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from ringfence import dispatch
from ringfence.audit.models import AuditEntry
from ringfence.engine.leader.commands import Stop
from ringfence.history.models import OffsetSnapshot
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

FRAGMENT = {"hx-request": "true"}
TAB = "/ui/connectors/flights/offsets"


@pytest.fixture
def flights(leader: FakeLeader, monkeypatch: pytest.MonkeyPatch) -> FakeLeader:
    leader.config.config(connector("flights", topic="t"))
    leader.start("flights", tasks=2)
    for number in (1, 2):
        leader.offsets.offset("flights", {"file": f"{number}.csv"}, {"position": 100 * number})
    leader.project()
    return leader


@pytest.fixture
def stopped(flights: FakeLeader) -> FakeLeader:
    dispatch.command(Stop("flights"))
    flights.start("flights", tasks=0)
    flights.asked.clear()
    return flights


def fields(page: Any) -> dict[str, str]:
    """The hidden fields of a question, and what a person fills in."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', text(page))
    plain = {name: value.replace("&quot;", '"').replace("&#x27;", "'") for name, value in found}
    return {**plain, "confirm": "flights", "reason": "the file was replaced"}


def preview(client: Client, *entries: dict[str, Any]) -> Any:
    sent = {"json": json.dumps({"offsets": list(entries)}), "slot": "preview"}
    return client.post(f"{TAB}/preview", sent, headers=FRAGMENT)


def move(client: Client, sent: dict[str, str]) -> Any:
    return client.post(f"{TAB}/move", sent, headers=FRAGMENT)


CHANGE = {"partition": {"file": "1.csv"}, "offset": {"position": 5}}


def test_the_tab_says_that_a_running_connector_must_be_stopped(client: Client, flights: FakeLeader) -> None:
    page = text(client.get(TAB))
    assert "position: 100" in page
    assert "only be changed while the connector is stopped" in page
    assert 'id="stop-for-offsets"' in page
    assert 'id="do-edit-offsets"' not in page
    assert "Possible only while the connector is stopped" in text(client.get(f"{TAB}/reset", headers=FRAGMENT))


def test_a_change_shows_before_and_after_then_is_made_and_can_be_undone(client: Client, stopped: FakeLeader) -> None:
    assert "&quot;position&quot;: 100" in text(client.get(f"{TAB}/edit", headers=FRAGMENT))
    unchanged = {"partition": {"file": "2.csv"}, "offset": {"position": 200}}
    shown = preview(client, CHANGE, unchanged)
    assert re.findall(r"<code>([^<]+)</code>", text(shown))[:2] == ["position: 100", "position: 5"]
    assert "1 of 2 offsets would change" in text(shown)
    assert stopped.asked == []
    assert OffsetSnapshot.objects.count() == 0
    answer = move(client, fields(shown))
    assert (answer.status_code, answer["hx-retarget"]) == (200, "#notices")
    assert stopped.asked == [("alter_offsets", "flights", {"offsets": [CHANGE]})]
    page = text(answer)
    assert "1 offset changed." in page
    assert "Resume to continue from there." in page
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.message) == ("offsets", "the file was replaced")
    assert f"#a{entry.pk}" in page
    undo = f"{TAB}/snapshots/{OffsetSnapshot.objects.get().number}"
    assert undo in page
    stopped.offsets.offset("flights", {"file": "1.csv"}, {"position": 5})
    stopped.project()
    question = client.get(undo, headers=FRAGMENT)
    assert re.findall(r"<code>([^<]+)</code>", text(question))[:2] == ["position: 5", "position: 100"]
    assert move(client, fields(question)).status_code == 200
    back = {"partition": {"file": "1.csv"}, "offset": {"position": 100}}
    assert stopped.asked[-1] == ("alter_offsets", "flights", {"offsets": [back]})
    assert OffsetSnapshot.objects.count() == 2


def test_a_reset_says_what_comes_next(client: Client, stopped: FakeLeader) -> None:
    question = client.get(f"{TAB}/reset", headers=FRAGMENT)
    assert "2 of 2 offsets would change. 2 of them are deleted." in text(question)
    answer = move(client, fields(question))
    assert "Resume to start from the beginning." in text(answer)
    assert stopped.asked[-1][0] == "reset_offsets"
    assert len(OffsetSnapshot.objects.get().entries) == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"confirm": "flight"}, "The name does not match"),
        ({"reason": "  "}, "A reason of up to"),
        ({"reason": "x" * 1001}, "A reason of up to"),
        ({"expected": "0"}, "The offsets have moved: nothing"),
        ({"kind": "other"}, "The request is incomplete"),
        ({"kind": "snapshot", "snapshot": "9"}, "The request is incomplete"),
        ({"changes": "{"}, "not valid JSON"),
    ],
)
def test_what_is_not_right_changes_nothing(
    client: Client, stopped: FakeLeader, wrong: dict[str, str], said: str
) -> None:
    answer = move(client, {**fields(preview(client, CHANGE)), **wrong})
    assert answer.status_code in (400, 409)
    assert said in text(answer)
    assert stopped.asked == []
    assert OffsetSnapshot.objects.count() == 0
    assert AuditEntry.objects.get().outcome == "failed"


def test_offsets_that_moved_since_the_preview_are_shown_anew(client: Client, stopped: FakeLeader) -> None:
    sent = fields(preview(client, CHANGE))
    stopped.offsets.offset("flights", {"file": "1.csv"}, {"position": 7})
    stopped.project()
    again = move(client, sent)
    assert again.status_code == 409
    assert stopped.asked == []
    assert re.findall(r"<code>([^<]+)</code>", text(again))[:2] == ["position: 7", "position: 5"]
    assert "the file was replaced" in text(again)
    assert move(client, fields(again)).status_code == 200


def test_a_running_connector_keeps_its_offsets(client: Client, flights: FakeLeader) -> None:
    sent = fields(preview(client, CHANGE))
    answer = move(client, sent)
    assert answer.status_code == 409
    assert "must be stopped" in text(answer)
    assert flights.asked == []


def test_nonsense_and_what_changes_nothing_is_explained(client: Client, stopped: FakeLeader) -> None:
    unchanged = {"partition": {"file": "2.csv"}, "offset": {"position": 200}}
    assert "Nothing differs from the committed offsets" in text(preview(client, unchanged))
    for wrong in ("", "{", "[]", '{"offsets": [{"partition": 3}]}'):
        answer = client.post(f"{TAB}/preview", {"json": wrong}, headers=FRAGMENT)
        assert answer.status_code == 400
        assert 'role="alert"' in text(answer)
    assert client.get(f"{TAB}/snapshots/9", headers=FRAGMENT).status_code == 200
    assert client.get(f"{TAB}/snapshots/9").status_code == 404


def test_a_snapshot_is_taken_by_a_button_whatever_the_state(client: Client, flights: FakeLeader) -> None:
    answer = client.post(f"{TAB}/snapshots", headers=FRAGMENT)
    assert "Snapshot 1 is taken: 2 offsets." in text(answer)
    page = text(client.get(TAB))
    assert "asked for" in page
    already = text(client.get(f"{TAB}/snapshots/1", headers=FRAGMENT))
    assert "The offsets are those of the snapshot already." in already
    assert 'id="restore-1"' in page


def test_offsets_in_a_topic_of_its_own_are_read_by_a_worker(
    client: Client, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader.config.config(connector("own", topic="t", **{"offsets.storage.topic": "own-offsets"}))
    leader.start("own", tasks=0)
    page = text(client.get("/ui/connectors/own/offsets"))
    assert "commits its offsets to a topic of its own" in page
    assert leader.asked == []
    assert "&quot;seqno&quot;: 43" in text(client.get("/ui/connectors/own/offsets/edit", headers=FRAGMENT))
