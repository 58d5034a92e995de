"""The Config tab and the edit form: versions, differences, the way back, and nothing of anybody else overwritten."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from ringfence.access.principal import Principal, Right, Verb
from ringfence.api import connector_writes
from ringfence.audit.models import AuditEntry
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.topics.config_records import TargetStateRecord
from ringfence.fencing.topics.connector_state import TargetState
from ringfence.history.models import ConfigVersion
from ringfence.projection.models import Connector
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

ANN, BOB = (Principal(name, "token", (Right(frozenset(Verb)),)) for name in ("ann", "bob"))
FRAGMENT = {"hx-request": "true"}
PAGE = "/ui/connectors/flights/config"
EDIT = "/ui/connectors/flights/edit"


def codes(response: Any) -> list[str]:
    """Of what differs; the head of a page names the class in one, too."""
    return [one for one in re.findall(r"<code>([^<]*)</code>", text(response)) if one != "VerifiableSource"]


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("flights", topic="t", pin="hunter22"))
    leader.start("flights", tasks=2)
    return leader


def change(leader: FakeLeader, **config: str) -> None:
    """Somebody else's change."""
    leader.config.config(connector("flights", **config))
    leader.start("flights", tasks=2)


def version(page: str) -> str:
    found = re.search(r'name="version"[^>]* value="(\d+)"', page)
    assert found is not None
    return found.group(1)


def test_versions_are_listed_with_who_and_when_and_no_secret(client: Client, flights: FakeLeader) -> None:
    config = {"connector.class": "VerifiableSource", "topic": "u", "pin": "hunter33"}
    connector_writes.configure("flights", config, ANN)
    page = text(client.get(PAGE))
    assert "hunter" not in page
    assert page.index(">ann<") < page.index('id="compare-1"')
    assert "2 settings" in page
    assert list(ConfigVersion.objects.order_by("number").values_list("user", flat=True)) == ["", "ann"]


def test_a_version_keeps_the_name_of_its_writer(client: Client, flights: FakeLeader) -> None:
    connector_writes.configure("flights", {"connector.class": "VerifiableSource", "topic": "u"}, ANN)
    same = Connector.objects.get(name="flights").settings
    connector_writes.configure("flights", same, BOB)
    assert ConfigVersion.objects.order_by("number").last().user == "ann"  # type: ignore[union-attr]


def test_any_two_versions_can_be_compared_and_any_with_now(client: Client, flights: FakeLeader) -> None:
    change(flights, topic="u", pin="hunter22")
    change(flights, topic="v", pin="hunter33")
    assert codes(client.get(f"{PAGE}?from=1&to=2")) == ["topic", "t", "u"]
    assert "<option selected>2</option>" in text(client.get(PAGE)), "the one before is proposed, not what is now"
    assert codes(client.get(f"{PAGE}?from=2")) == ["pin", "[hidden]", "[hidden]", "topic", "u", "v"]
    assert "The versions are the same." in text(client.get(f"{PAGE}?from=2&to=2"))
    for wrong in ("from=9", "from=1&to=9", "from=x", "from=1&to=%00", "from=99999999999999999999"):
        answer = client.get(f"{PAGE}?{wrong}")
        assert answer.status_code == 200
        assert "There is no version" in text(answer)


def test_rolling_back_asks_first_with_numbers_and_leaves_an_entry(client: Client, flights: FakeLeader) -> None:
    change(flights, topic="u", pin="hunter33")
    path = "/ui/connectors/flights/versions/1/rollback"
    question = text(client.get(path, headers=FRAGMENT))
    assert "2 settings would change. 2 tasks will commit and end" in question
    assert "hunter" not in question
    assert "<html" not in question
    assert "<!DOCTYPE html>" in text(client.get(path))
    asked = len(flights.asked)
    answer = client.post(path, {"version": version(question)}, headers=FRAGMENT)
    assert answer.status_code == 200
    assert (answer["hx-retarget"], "ringfence-close" in answer["hx-trigger-after-swap"]) == ("#notices", True)
    kind, _, body = flights.asked[asked]
    assert (kind, body["config"]["pin"]) == ("configure", "hunter22")
    assert f"#a{AuditEntry.objects.get().pk}" in text(answer)
    assert client.get("/ui/connectors/flights/versions/7/rollback").status_code == 404


def test_rolling_back_what_was_changed_meanwhile_asks_again(client: Client, flights: FakeLeader) -> None:
    change(flights, topic="u", pin="hunter22")
    path = "/ui/connectors/flights/versions/1/rollback"
    old = version(text(client.get(path, headers=FRAGMENT)))
    change(flights, topic="v", pin="hunter22")
    before = list(flights.asked)
    again = client.post(path, {"version": old}, headers=FRAGMENT)
    assert again.status_code == 409
    assert flights.asked == before
    assert codes(again) == ["topic", "v", "t"]
    assert client.post(path, {"version": version(text(again))}, headers=FRAGMENT).status_code == 200


def edited(**config: str) -> str:
    return json.dumps({"name": "flights", "connector.class": "VerifiableSource", **config})


def test_pages_with_a_version_to_send_keep_the_programs_own_in_their_footer(
    client: Client, flights: FakeLeader
) -> None:
    from ringfence import __version__

    change(flights, topic="u")
    for path in (EDIT, "/ui/connectors/flights/versions/1/rollback", PAGE):
        assert f"<span>Ringfence {__version__}</span>" in text(client.get(path))


def test_editing_keeps_secrets(client: Client, flights: FakeLeader) -> None:
    page = text(client.get(EDIT))
    assert "hunter22" not in page
    sent = {"json": edited(topic="u", pin="[hidden]"), "version": version(page)}
    assert client.post(EDIT, sent)["location"] == PAGE
    assert flights.asked[-1][2]["config"]["pin"] == "hunter22"


def test_a_stale_save_is_a_409_that_shows_three_ways_and_both_together(client: Client, flights: FakeLeader) -> None:
    old = version(text(client.get(EDIT)))
    change(flights, topic="theirs", pin="hunter22", extra="e")
    before = list(flights.asked)
    sent = {"json": edited(topic="mine", pin="[hidden]", other="o"), "version": old}
    stale = client.post(EDIT, sent, headers=FRAGMENT)
    assert stale.status_code == 409
    assert flights.asked == before
    page = text(stale)
    assert "<html" not in page
    assert "hunter" not in page
    assert codes(stale)[:8] == ["extra", "e", "other", "o", "topic", "t", "theirs", "mine"]
    assert page.count('class="conflict"') == 1
    both = re.search(r'<textarea id="json"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    assert both is not None
    merged = json.loads(both.group(1).replace("&quot;", '"'))
    assert (merged["topic"], merged["extra"], merged["other"], merged["pin"]) == ("mine", "e", "o", "[hidden]")
    saved = client.post(EDIT, {"json": json.dumps(merged), "version": version(page)}, headers=FRAGMENT)
    assert (saved.status_code, saved["hx-redirect"]) == (204, PAGE)
    assert flights.asked[-1][2]["config"]["pin"] == "hunter22"


def test_a_secret_that_others_changed_is_not_undone_by_a_mask(client: Client, flights: FakeLeader) -> None:
    old = version(text(client.get(EDIT)))
    change(flights, topic="t", pin="hunter33")
    stale = client.post(EDIT, {"json": edited(topic="mine", pin="[hidden]"), "version": old}, headers=FRAGMENT)
    assert stale.status_code == 409
    sent = {"json": edited(topic="mine", pin="[hidden]"), "version": version(text(stale))}
    assert client.post(EDIT, sent).status_code == 302
    assert flights.asked[-1][2]["config"]["pin"] == "hunter33"


def test_a_configuration_that_was_only_written_again_is_not_stale(client: Client, flights: FakeLeader) -> None:
    old = version(text(client.get(EDIT)))
    flights.config.config(TargetStateRecord(ConnectorName("flights"), TargetState.PAUSED))
    change(flights, topic="t", pin="hunter22")
    assert client.post(EDIT, {"json": edited(topic="u", pin="[hidden]"), "version": old}).status_code == 302


def test_an_open_form_hears_of_a_change_and_is_left_alone(client: Client, flights: FakeLeader) -> None:
    old = version(text(client.get(EDIT)))
    assert text(client.get(f"{EDIT}/newer?version={old}")).strip() == ""
    connector_writes.configure("flights", {"connector.class": "VerifiableSource", "topic": "u", "pin": "hunter22"}, ANN)
    told = text(client.get(f"{EDIT}/newer?version={old}"))
    assert "changed by ann" in told
    assert codes(client.get(f"{EDIT}/newer?version={old}")) == ["topic", "t", "u"]


def test_the_form_keeps_what_it_does_not_know_and_removes_what_is_emptied(client: Client, flights: FakeLeader) -> None:
    change(flights, topic="t", pin="hunter22", extra="a\r\nb ", empty="", gone="x")
    page = text(client.get(f"{EDIT}?mode=form"))
    assert "hunter22" not in page
    fields = {
        "setting:topic": "u",
        "setting:pin": "",
        "keep:setting:pin": "1",
        "setting:extra": "a\r\nb ",
        "setting:empty": "",
        "setting:gone": "",
        "class": "VerifiableSource",
        "extra-key": "tasks.max",
        "extra-value": "3",
    }
    for name in fields:
        assert f'name="{name}"' in page
    assert client.post(EDIT, {**fields, "mode": "form", "version": version(page)}).status_code == 302
    wanted = {"topic": "u", "pin": "hunter22", "extra": "a\r\nb ", "empty": "", "tasks.max": "3"}
    assert flights.asked[-1][2]["config"] == {"name": "flights", "connector.class": "VerifiableSource", **wanted}


def test_form_and_json_turn_into_each_other_and_nothing_is_saved(client: Client, flights: FakeLeader) -> None:
    page = text(client.get(EDIT))
    sent = {"json": edited(topic="mine", pin="[hidden]", odd="1"), "version": version(page), "mode": "json"}
    form = text(client.post("/ui/new/as?mode=form", sent, headers=FRAGMENT))
    assert 'name="setting:odd"' in form
    assert 'value="mine"' in form
    assert flights.asked == []
    broken = client.post("/ui/new/as?mode=form", {**sent, "json": "{"}, headers=FRAGMENT)
    assert broken["hx-retarget"] == "#json-error", "beside the text, which stays"
    assert "The text is not valid JSON" in text(broken)
    assert "line 1 column 2" in text(broken)


def test_without_a_worker_the_form_still_shows_what_is_set(client: Client, flights: FakeLeader) -> None:
    flights.plugins_away = True
    page = text(client.get(f"{EDIT}?mode=form"))
    assert "settings are not available now" in page
    assert 'name="setting:topic"' in page
    assert "hunter22" not in page


def test_the_checks_of_the_form_fill_secrets_in(client: Client, flights: FakeLeader) -> None:
    fields = {"mode": "form", "setting:topic": "u", "setting:pin": "", "keep:setting:pin": "1"}
    fields |= {"class": "VerifiableSource", "name": "flights", "of": "flights", "editing": "1"}
    answer = text(client.post("/ui/new/preflight", fields, headers=FRAGMENT))
    assert flights.asked[-1][:2] == ("preflight", "flights")
    assert flights.asked[-1][2]["pin"] == "hunter22"
    assert "hunter22" not in answer


def test_only_who_may_read_configurations_sees_them(
    client: Client, flights: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ringfence import middleware as middleware

    viewer = Principal("eve", "session", (Right(frozenset({Verb.VIEW, Verb.EDIT}), "*"),))
    monkeypatch.setattr(middleware, "identify", lambda request: viewer)
    for path in (PAGE, EDIT, f"{EDIT}/newer?version=0", "/ui/connectors/flights/versions/1/rollback"):
        refused = client.get(path)
        assert refused.status_code == 403
        assert "view-config" in text(refused)


def test_what_stands_above_a_still_tab_says_that_it_is_old(client: Client, flights: FakeLeader) -> None:
    page = text(client.get(PAGE))
    stamp = re.search(r'id="stamp" name="stamp" value="([^"]+)"', page)
    assert stamp is not None
    head = f"/ui/connectors/flights/head?tab=config&stamp={stamp.group(1)}"
    assert "Show the current state" not in text(client.get(head, headers=FRAGMENT))
    change(flights, topic="u")
    assert "Show the current state" in text(client.get(head, headers=FRAGMENT))
    assert 'aria-current="page"' in text(client.get(head, headers=FRAGMENT))


def test_a_deleted_connector_is_created_again_from_its_page(client: Client, flights: FakeLeader) -> None:
    assert client.delete("/connectors/flights").status_code == 204
    page = client.get("/ui/connectors/flights")
    assert page.status_code == 404
    path = "/ui/connectors/flights/versions/1/rollback"
    assert f'href="{path}"' in text(page)
    question = text(client.get(path))
    assert "Create flights again?" in question
    assert "hunter" not in question
    answer = client.post(path, {"stopped": "1"})
    assert answer.status_code == 302
    kind, _, body = flights.asked[-1]
    assert (kind, body["initial_state"], body["config"]["pin"]) == ("create", "STOPPED", "hunter22")
