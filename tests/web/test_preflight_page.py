"""The checks below a form that is being filled in."""

from django.test import Client

from ringfence.dispatch import Refused
from tests.support.leader import FakeLeader

FORM = {"class": "VerifiableSource", "name": "c", "setting:topic": "t"}


def test_the_form_offers_the_checks_and_shows_them_with_their_remedy(client: Client) -> None:
    assert 'hx-post="/ui/new/preflight"' in client.get("/ui/new?class=VerifiableSource").content.decode()
    page = client.post("/ui/new/preflight", FORM, headers={"HX-Request": "true"}).content.decode()
    assert "1 of 2 to look at" in page
    assert "Mend it" in page
    assert "<html" not in page


def test_pasted_json_is_checked_too(client: Client, leader: FakeLeader) -> None:
    pasted = '{"name": "c", "config": {"connector.class": "VerifiableSource", "topic": "t"}}'
    assert "broker version" in client.post("/ui/new/preflight", {"json": pasted}).content.decode()
    assert leader.asked[-1][1] == "c"


def test_trouble_is_said_in_place(client: Client, leader: FakeLeader) -> None:
    assert "must be a non-empty text" in client.post("/ui/new/preflight", {**FORM, "name": ""}).content.decode()
    leader.refusal = Refused(503, "Redis does not answer")
    assert "Redis does not answer" in client.post("/ui/new/preflight", FORM).content.decode()
