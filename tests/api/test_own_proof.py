"""`…/proof`: begun by those who may operate, read by those who may look, and honest about what has no report."""

import time

import pytest
from django.test import Client

from ringfence.dispatch import Refusal
from tests.support.accounts import JSON, account, bearer
from tests.support.leader import FakeLeader

pytestmark = pytest.mark.usefixtures("login_required")

PATH = "/api/v1/connectors/{}/proof"


def test_a_proof_is_counted_and_told_as_json_and_as_text(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    ann = bearer(account("ann", ("viewer operate", "team-*")))
    assert client.get(PATH.format("team-a"), headers=ann).status_code == 404
    begun = client.post(PATH.format("team-a"), {"seconds": 30}, content_type=JSON, headers=ann)
    assert (begun.status_code, begun.json()["number"]) == (202, 1)
    asked = next(body for what, _, body in two_connectors_of_teams.asked if what == "proof")
    assert (asked["number"], asked["tasks"], asked["limit_seconds"], asked["altered"]) == (1, 1, 30.0, False)
    found = client.get(PATH.format("team-a"), headers=ann).json()
    assert (found["state"], found["report"]["verdict"]) == ("done", "incomplete")
    assert found["report"]["counts"]["gaps"] is None, "never 0 where nothing was counted"
    assert found["report"]["class"] == "VerifiableSource"
    text = client.get(PATH.format("team-a") + "?format=text&number=1", headers=ann)
    assert text["Content-Type"].startswith("text/plain")
    for said in ("Verdict    incomplete", "gaps           cannot be counted", "visible        7", "abc at k:9092"):
        assert said in text.content.decode()
    assert client.get(PATH.format("team-a") + "?number=2", headers=ann).status_code == 404


def test_who_may_only_look_cannot_begin_one(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    eve = bearer(account("eve", ("viewer", "team-*")))
    refused = client.post(PATH.format("team-a"), {}, content_type=JSON, headers=eve)
    assert (refused.status_code, "`operate`" in refused.json()["detail"]) == (403, True)
    assert client.get(PATH.format("other"), headers=eve).status_code == 403
    assert not [each for each in two_connectors_of_teams.asked if each[0] == "proof"]


def test_nothing_is_left_of_one_that_no_worker_took(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    ann = bearer(account("ann", ("viewer operate", "*")))
    two_connectors_of_teams.refusal = Refusal(503, "No worker reports")
    assert client.post(PATH.format("team-a"), {}, content_type=JSON, headers=ann).status_code == 503
    assert client.get(PATH.format("team-a"), headers=ann).status_code == 404
    for wrong in ({"seconds": 0}, {"seconds": "1"}, {"second": 1}):
        assert client.post(PATH.format("team-a"), wrong, content_type=JSON, headers=ann).status_code == 400
    for wrong_query in ("number=0", "number=x", "format=xml", "what=1"):
        assert client.get(f"{PATH.format('team-a')}?{wrong_query}", headers=ann).status_code == 400


def test_one_under_way_is_answered_and_one_whose_worker_is_gone_has_failed(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    from ringfence.history.models import ProofRun

    ann = bearer(account("ann", ("viewer operate", "*")))
    now_ms = int(time.time() * 1000)
    ProofRun.objects.create(
        connector="team-a", number=4, state="running", worker="w9", started_ms=now_ms, beat_ms=now_ms, done=3, total=9
    )
    found = client.post(PATH.format("team-a"), {}, content_type=JSON, headers=ann).json()
    assert (found["number"], found["state"], found["done"], found["total"]) == (4, "running", 3, 9)
    assert not [each for each in two_connectors_of_teams.asked if each[0] == "proof"], "one at a time"
    ProofRun.objects.update(beat_ms=now_ms - 60_000)
    found = client.get(PATH.format("team-a"), headers=ann).json()
    assert found["state"] == "failed"
    assert "w9 does not report" in found["error"]
    assert client.post(PATH.format("team-a"), {}, content_type=JSON, headers=ann).json()["number"] == 5


def test_offsets_that_were_changed_by_hand_are_told_to_the_worker(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    from ringfence.api.v1 import offsets

    ann = bearer(account("ann", ("viewer operate", "*")))
    offsets.take_snapshot("team-a", "ann", "before the offsets were changed")
    client.post(PATH.format("team-a"), {}, content_type=JSON, headers=ann)
    assert next(body for what, _, body in two_connectors_of_teams.asked if what == "proof")["altered"] is True
