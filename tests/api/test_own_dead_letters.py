"""`…/dead-letters` and their replay: what is asked of the worker, an outcome for each, and no secret in any answer."""

import base64
from typing import Any

import pytest
from django.test import Client

from ringfence.audit.models import AuditEntry
from ringfence.dispatch import Refusal
from tests.support.accounts import JSON, account, bearer
from tests.support.leader import FakeLeader

pytestmark = pytest.mark.usefixtures("login_required")

PATH = "/api/v1/connectors/team-a/dead-letters"
KEPT = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}


@pytest.fixture
def ann(client: Client, two_connectors_of_teams: FakeLeader) -> dict[str, str]:
    made = bearer(account("ann", ("editor", "team-*")))
    assert client.patch("/connectors/team-a/config", KEPT, content_type=JSON, headers=made).status_code == 200
    return made


def last_entry() -> AuditEntry:
    entry = AuditEntry.objects.order_by("pk").last()
    assert entry is not None
    return entry


def test_a_page_says_what_failed_and_where_the_next_one_begins(
    client: Client, two_connectors_of_teams: FakeLeader, ann: dict[str, str]
) -> None:
    answer = client.get(PATH, {"stage": "VALUE_CONVERTER", "class": "ValueError"}, headers=ann)
    assert answer.status_code == 200
    body = answer.json()
    assert (body["topic"], body["before"], body["at_most"], body["complete"]) == ("bad", "0:3", 10, True)
    first = body["letters"][0]
    assert (first["stage"], first["class"], first["replayed"]) == ("VALUE_CONVERTER", "JsonConverter", "no")
    assert first["message"] == "<b>[hidden]</b> is no number"
    assert base64.b64decode(first["value"]) == b"a <i>line</i> [hidden]"
    assert "123456" not in answer.content.decode()
    asked = two_connectors_of_teams.asked[-1][2]
    assert (asked["stage"], asked["by"], asked["before"]) == ("VALUE_CONVERTER", "ValueError", None)
    assert (asked["committed_only"], asked["config"]["pin"]) == (True, "123456")
    older = client.get(PATH, {"before": "0:3,1:44", "level": "read_uncommitted"}, headers=ann)
    assert older.json()["before"] == ""
    asked = two_connectors_of_teams.asked[-1][2]
    assert (asked["before"], asked["committed_only"]) == ([[0, 3], [1, 44]], False)
    assert (last_entry().action, last_entry().message) == ("view-data", "looked at dead letters in topic bad")


def test_a_replay_has_an_outcome_for_each(
    client: Client, two_connectors_of_teams: FakeLeader, ann: dict[str, str]
) -> None:
    letters = [{"partition": 0, "offset": 7}, {"partition": 1, "offset": 9}]
    body = {"letters": letters, "reason": "mended"}
    answer = client.post(f"{PATH}/replay", body, content_type=JSON, headers=ann)
    assert answer.status_code == 200
    assert [(each["offset"], each["became"], each["topic"], each["why"]) for each in answer.json()["results"]] == [
        (7, "written", "t", ""),
        (9, "failed", "", "no [hidden]"),
    ]
    asked = two_connectors_of_teams.asked[-1][2]
    assert asked["chosen"] == {"places": [[0, 7], [1, 9]]}
    assert (asked["told"]["by"], asked["told"]["reason"], asked["secret"]) == ("ann", "mended", ["pin"])
    message = "mended. replayed dead letters of bad: 1 written to t, 1 failed again"
    assert (last_entry().action, last_entry().message) == ("operate", message)
    every = client.post(
        f"{PATH}/replay", {"all": True, "stage": "KEY_CONVERTER"}, content_type=JSON, headers=ann
    ).json()
    assert every["left"] == 4
    assert two_connectors_of_teams.asked[-1][2]["chosen"] == {"stage": "KEY_CONVERTER", "class": ""}
    two_connectors_of_teams.refusal = Refusal(409, "A newer replay of connector team-a has begun", retry=True)
    assert client.post(f"{PATH}/replay", body, content_type=JSON, headers=ann).status_code == 409


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"all": False},
        {"all": True, "letters": []},
        {"letters": []},
        {"letters": {}},
        {"letters": [{"partition": 0}]},
        {"letters": [{"partition": 0, "offset": -1}]},
        {"letters": [{"partition": True, "offset": 1}]},
        {"letters": [{"partition": 0, "offset": 1}] * 501},
        {"letters": [{"partition": 0, "offset": 1}], "stage": "KEY_CONVERTER"},
        {"all": True, "stage": "SINK"},
        {"all": True, "class": 7},
        {"all": True, "reason": "x" * 1001},
        {"all": True, "what": 1},
    ],
    ids=lambda body: str(body)[:60],
)
def test_what_cannot_be_meant_is_refused(
    client: Client, two_connectors_of_teams: FakeLeader, ann: dict[str, str], body: Any
) -> None:
    before = list(two_connectors_of_teams.asked)
    assert client.post(f"{PATH}/replay", body, content_type=JSON, headers=ann).status_code == 400
    assert two_connectors_of_teams.asked == before


def test_a_connector_without_dead_letters_says_how_to_keep_them(
    client: Client, two_connectors_of_teams: FakeLeader, ann: dict[str, str]
) -> None:
    for wrong in ({"stage": "x"}, {"before": "7"}, {"level": "all"}, {"stage": ""}):
        assert client.get(PATH, wrong, headers=ann).status_code == 400
    admin = bearer(account("bob", ("admin", "*")))
    for answer in (
        client.get("/api/v1/connectors/other/dead-letters", headers=admin),
        client.post("/api/v1/connectors/other/dead-letters/replay", {"all": True}, content_type=JSON, headers=admin),
    ):
        assert answer.status_code == 400
        assert "set errors.tolerance=all" in answer.json()["detail"]
