"""`PUT /connectors/{c}/fence`: what reaches the leader, and what the web process refuses by itself."""

import base64
from typing import Any

from django.test import Client

from ringfence.dispatch import Refusal
from tests.support.leader import FakeLeader

SIGNED = {"X-Connect-Authorization": "c2lnbmVk", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}


def put(client: Client, headers: dict[str, str], body: bytes = b"") -> Any:
    return client.put("/connectors/c/fence", body, content_type="application/json", headers=headers)


def test_body_signature_and_algorithm_go_to_the_leader_as_they_are(client: Client, leader: FakeLeader) -> None:
    assert put(client, SIGNED, b"{ }").status_code == 204
    payload = base64.b64encode(b"{ }").decode()
    assert leader.asked == [
        ("fence", "c", {"payload": payload, "signature": "c2lnbmVk", "algorithm": "HmacSHA256"}),
    ]


def test_without_a_signature_nobody_is_asked(client: Client, leader: FakeLeader) -> None:
    for missing in SIGNED:
        answer = put(client, {name: value for name, value in SIGNED.items() if name != missing})
        assert answer.status_code == 400
        assert "missing required signature" in answer.json()["message"]
    assert leader.asked == []


def test_what_the_leader_refuses_is_passed_on(client: Client, leader: FakeLeader) -> None:
    for status in (403, 404, 409, 500, 503):
        leader.refusal = Refusal(status, "no")
        assert put(client, SIGNED).status_code == status


def test_the_signature_takes_the_place_of_a_login_for_this_request_only(
    client: Client,
    leader: FakeLeader,
    token_required: None,
) -> None:
    assert put(client, SIGNED).status_code == 204
    assert client.get("/connectors/c/fence", headers=SIGNED).status_code == 401
    assert client.put("/connectors/c/stop", headers=SIGNED).status_code == 401
    assert client.put("/connectors/c/x/fence", headers=SIGNED).status_code == 401
