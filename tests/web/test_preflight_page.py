"""The checks below a form that is being filled in."""

import html

import pytest
from django.test import Client

from ringfence.dispatch import Refusal
from ringfence.engine.leader.commands import Create
from tests.support.leader import FakeLeader

FORM = {"class": "VerifiableSource", "name": "c", "setting:topic": "t"}


def test_the_form_offers_the_checks_and_shows_them_with_their_remedy(client: Client) -> None:
    assert 'hx-post="/ui/new/preflight"' in client.get("/ui/new?class=VerifiableSource").content.decode()
    page = client.post("/ui/new/preflight", FORM, headers={"HX-Request": "true"}).content.decode()
    assert "1 of 3 checks passed" in page
    assert "No free slot: 0 of 0 in use" in page
    assert "Mend it" in page
    assert "<html" not in page


def test_pasted_json_is_checked_too(client: Client, leader: FakeLeader) -> None:
    pasted = '{"name": "c", "config": {"connector.class": "VerifiableSource", "topic": "t"}}'
    assert "broker version" in client.post("/ui/new/preflight", {"json": pasted}).content.decode()
    assert leader.asked[-1][1] == "c"


def test_a_configuration_that_is_edited_can_be_checked_before_it_is_saved(client: Client, leader: FakeLeader) -> None:
    stored = {"connector.class": "VerifiableSource", "name": "edited", "topic": "t", "pin": "hunter2"}
    leader.command(Create("edited", stored, initial_state="RUNNING"))
    assert 'hx-post="/ui/new/preflight"' in client.get("/ui/connectors/edited/edit").content.decode()
    form = {"name": "edited", "of": "edited", "editing": "1", "mode": "json"}
    edited = '{"connector.class": "VerifiableSource", "topic": "other", "pin": "[hidden]"}'
    page = client.post("/ui/new/preflight", {**form, "json": edited}).content.decode()
    assert "1 of 3 checks passed" in page
    assert "No free slot: 0 of 0 in use" in page
    assert leader.asked[-1] == ("preflight", "edited", {**stored, "topic": "other"})
    assert "hunter2" not in page
    other = '{"name": "c", "connector.class": "VerifiableSource", "topic": "t"}'
    assert "match connector name" in client.post("/ui/new/preflight", {**form, "json": other}).content.decode()


def test_what_refuses_the_configuration_looks_worse_than_a_warning(
    client: Client, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [{"name": "transaction timeout", "result": "failed", "message": "too long", "remedy": "", "key": ""}]
    monkeypatch.setattr(leader, "preflight", lambda config, **_: found)
    page = client.post("/ui/new/preflight", FORM).content.decode()
    assert "The connector can be created" in page.replace("A warning: ", "")
    found[0]["decides"] = True  # type: ignore[assignment]
    page = client.post("/ui/new/preflight", FORM).content.decode()
    assert "is refused because of this" in page


def test_trouble_is_said_in_place(client: Client, leader: FakeLeader) -> None:
    assert "Fill in Name" in client.post("/ui/new/preflight", {**FORM, "name": ""}).content.decode()
    leader.refusal = Refusal(503, "Redis does not answer")
    assert "Redis does not answer" in client.post("/ui/new/preflight", FORM).content.decode()


def test_first_records_are_shown_with_their_schema_once(
    client: Client, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = leader.preview(FORM, [], {}, fresh=False, java=False)
    record = plain["records"][0]
    schema = {"format": "AVRO", "text": '{"type":"record","name":"Order"}', "cut": 0}
    value = {"type": "bytes", "text": "0x0000000000", "cut": 0, "payload": {"text": '{"item":"pear"}', "cut": 0}}
    written = {**record["written"], "value": {**value, "schema": schema}}
    records = [{**record, "written": written}, {**record, "written": written}]
    monkeypatch.setattr(leader, "preview", lambda *_, **__: {**plain, "records": records})
    page = html.unescape(client.post("/ui/new/preview", FORM).content.decode())
    assert page.count("Schema of the values in routed") == 1
    assert "Avro, in the registry" in page
    assert '"name": "Order"' in page
    assert page.count('{"item":"pear"}') == 4, "on each record's line, and within it"
    assert "0x0000000000" not in page
