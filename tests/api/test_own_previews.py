"""`/api/v1/preview` and `/api/v1/transforms/trial`: what is asked, who may ask, and no secret in the answer."""

import pytest
from django.test import Client

from tests.support.accounts import JSON, account, bearer
from tests.support.leader import FakeLeader

pytestmark = pytest.mark.usefixtures("login_required")

CONFIG = {"name": "team-a", "connector.class": "VerifiableSource", "topic": "t", "pin": "[hidden]"}
PREVIEW, TRIAL = "/api/v1/preview", "/api/v1/transforms/trial"


def test_a_preview_uses_the_stored_secret_and_does_not_show_it(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    ann = bearer(account("ann", ("editor", "team-*")))
    answer = client.post(PREVIEW, {"config": CONFIG, "records": 3, "fresh": True}, content_type=JSON, headers=ann)
    assert answer.status_code == 200
    asked = next(body for what, _, body in two_connectors_of_teams.asked if what == "preview")
    assert (asked["config"]["pin"], asked["secret"], asked["fresh"]) == ("123456", ["pin"], True)
    body = answer.json()
    assert body["records"][0]["source_offset"] == {"position": 7}
    assert body["records"][0]["before"]["value"]["text"] == "a line [hidden]"
    assert "123456" not in answer.content.decode()


def test_only_who_may_edit_that_connector_may_ask(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    viewer = bearer(account("bob", ("viewer operate", "*")))
    ann = bearer(account("ann", ("editor", "team-*")))
    other = {**CONFIG, "name": "other"}
    for path, more in ((PREVIEW, {}), (TRIAL, {"record": {"topic": "t"}})):
        before = list(two_connectors_of_teams.asked)
        for who, config in ((viewer, CONFIG), (ann, other), (ann, {**other, "pin": "98765"})):
            refused = client.post(path, {"config": config, **more}, content_type=JSON, headers=who)
            assert refused.status_code == 403
            assert "`edit`" in refused.json()["detail"]
        assert two_connectors_of_teams.asked == before


def test_a_source_that_is_in_use_is_a_conflict_and_names_it_to_those_who_may_see_it(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    ann = bearer(account("ann", ("editor", "team-*")))
    for busy, told in (("team-a", "Connector team-a runs"), ("other", "Another connector reads the same source")):
        two_connectors_of_teams.busy = busy
        answer = client.post(PREVIEW, {"config": CONFIG}, content_type=JSON, headers=ann)
        assert (answer.status_code, told in answer.json()["detail"]) == (409, True)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"config": {**CONFIG, "name": ""}},
        {"config": {"name": "team-a"}},
        {"config": CONFIG, "records": 51},
        {"config": CONFIG, "records": True},
        {"config": CONFIG, "seconds": 99},
        {"config": CONFIG, "fresh": "yes"},
        {"config": CONFIG, "what": 1},
    ],
)
def test_what_cannot_be_meant_is_refused(client: Client, two_connectors_of_teams: FakeLeader, wrong: object) -> None:
    ann = bearer(account("ann", ("editor", "team-*")))
    before = list(two_connectors_of_teams.asked)
    assert client.post(PREVIEW, wrong, content_type=JSON, headers=ann).status_code == 400
    assert two_connectors_of_teams.asked == before


def test_a_trial_shows_each_step(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    ann = bearer(account("ann", ("editor", "team-*")))
    asked = {"config": CONFIG, "record": {"topic": "t", "value": {"n": 1.5, "m": 2}}}
    answer = client.post(TRIAL, asked, content_type=JSON, headers=ann)
    assert answer.status_code == 200
    assert two_connectors_of_teams.asked[-1][2]["record"] == {"topic": "t", "value": {"n": 1.5, "m": 2}}
    assert answer.json()["steps"][0]["record"]["topic"] == "routed"
    assert "123456" not in answer.content.decode()
    assert client.post(TRIAL, {"config": CONFIG}, content_type=JSON, headers=ann).status_code == 400
