"""`/api/v1/…/transactions` and `…/fence`: what is asked of the workers, who may, and what the trail keeps."""

from typing import Any

import pytest
from django.test import Client

from ringfence.dispatch import Refusal
from tests.support.accounts import JSON, account, bearer
from tests.support.leader import FakeLeader
from tests.support.own_api import problem

FENCE = "/api/v1/connectors/team-a/fence"
TRANSACTIONS = "/api/v1/connectors/team-a/transactions"
HANGING = f"{TRANSACTIONS}/hanging"


def test_transactions_come_from_kafka_with_state_holder_age_and_partitions(
    client: Client, two_connectors: FakeLeader
) -> None:
    body = client.get(TRANSACTIONS).json()
    assert [each["id"] for each in body["transactions"]] == ["g-team-a-0", "g-team-a-1"]
    first = body["transactions"][0]
    assert (first["state"], first["producer_id"], first["epoch"], first["age_ms"]) == ("Ongoing", 7, 3, 12)
    assert first["transaction_version"] == 2
    assert first["partitions"] == [{"topic": "t", "partition": 0}]
    assert [each["task"] for each in client.get(f"{TRANSACTIONS}?open=true").json()["transactions"]] == [0]
    assert [each["task"] for each in client.get(f"{TRANSACTIONS}?open=false").json()["transactions"]] == [1]
    problem(client.get(f"{TRANSACTIONS}?open=perhaps"), 400)
    two_connectors.refusal = Refusal(503, "away", retry=True)
    response = client.get(TRANSACTIONS)
    assert (problem(response, 503), response["retry-after"]) == ("away", "1")


def test_ids_of_larger_generations_before_are_asked_for_too(client: Client, two_connectors: FakeLeader) -> None:
    two_connectors.start("team-a", tasks=1)
    client.get(TRANSACTIONS)
    assert two_connectors.asked[-1] == ("transactions", "team-a", {"tasks": 2})


def test_a_round_is_forced_with_a_reason_and_the_reason_is_kept(client: Client, two_connectors: FakeLeader) -> None:
    from ringfence.audit.models import AuditEntry

    answer = client.post(FENCE, {"reason": "a worker hangs"}, content_type=JSON)
    assert answer.status_code == 200
    assert answer.json()["generation"] > 0
    assert two_connectors.asked[-1] == ("fence_now", "team-a", {"reason": "a worker hangs"})
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.connector, entry.message, entry.outcome) == (
        "fence",
        "team-a",
        "a worker hangs",
        "done",
    )


def test_a_round_is_accepted_before_it_is_over(client: Client, two_connectors: FakeLeader) -> None:
    answer = client.post(FENCE, {"reason": "in a hurry", "wait": False}, content_type=JSON)
    assert (answer.status_code, answer.json()["generation"] > 0) == (202, True)
    assert two_connectors.asked[-1] == ("fence_now", "team-a", {"reason": "in a hurry", "wait": False})
    before = list(two_connectors.asked)
    for body in ({"reason": "x", "wait": "no"}, {"reason": "x", "wait": False, "transactional_id": "g-team-a-0"}):
        problem(client.post(FENCE, body, content_type=JSON), 400)
    assert two_connectors.asked == before


def test_one_id_is_fenced(client: Client, two_connectors: FakeLeader) -> None:
    body = {"reason": "it hangs", "transactional_id": "g-team-a-0"}
    answer = client.post(FENCE, body, content_type=JSON)
    fenced = {"id": "g-team-a-0", "producer_id": 7, "epoch": 4}
    assert answer.json() == {"connector": "team-a", "generation": None, "fenced": [fenced]}
    assert two_connectors.asked[-1] == ("fence_id", "team-a", {"id": "g-team-a-0", "reason": "it hangs"})


@pytest.mark.parametrize(
    "body",
    [None, [], {}, {"reason": ""}, {"reason": 1}, {"reason": "x", "transactional_id": 3}, {"reason": "x", "a": 1}],
)
def test_a_body_that_cannot_be_meant_fences_nothing(client: Client, two_connectors: FakeLeader, body: Any) -> None:
    before = list(two_connectors.asked)
    problem(client.post(FENCE, body, content_type=JSON), 400)
    assert two_connectors.asked == before


def test_fencing_needs_its_own_verb(client: Client, two_connectors: FakeLeader, login_required: None) -> None:
    editor = bearer(account("ann", ("editor", "*")))
    before = list(two_connectors.asked)
    assert "`fence` on connector team-a" in problem(
        client.post(FENCE, {"reason": "x"}, content_type=JSON, headers=editor), 403
    )
    assert two_connectors.asked == before
    assert (
        client.post(
            FENCE, {"reason": "x"}, content_type=JSON, headers=bearer(account("bob", ("fence", "team-*")))
        ).status_code
        == 200
    )
    problem(
        client.post(
            FENCE.replace("team-a", "team-x"),
            {"reason": "x"},
            content_type=JSON,
            headers=bearer(account("eve", ("fence", "*"))),
        ),
        404,
    )


def test_clusters_of_generations_that_may_be_alive_are_asked_too(client: Client, two_connectors: FakeLeader) -> None:
    from ringfence.history import old_generations as live
    from ringfence.projection.models import Connector, GenerationRow

    def earlier() -> list[str]:
        return [config["topic"] for config in live.find_unfenced_configs(Connector.objects.get(name="team-a"))]

    elsewhere = {
        "connector.class": "VerifiableSource",
        "topic": "u",
        "producer.override.bootstrap.servers": "there:9092",
    }
    client.put("/connectors/team-a/config", elsewhere, content_type=JSON)
    assert earlier() == ["t"], "the tasks that run are those of the configuration before"
    client.get(TRANSACTIONS)
    assert [config["topic"] for config in two_connectors.asked[-1][2]["earlier"]] == ["t"]
    two_connectors.start("team-a", tasks=2)
    GenerationRow.objects.filter(connector="team-a").update(stage="done")
    assert earlier() == [], "all before are fenced"
    newest = GenerationRow.objects.filter(connector="team-a").latest("generation")
    GenerationRow.objects.filter(pk=newest.pk).update(stage="fencing")
    assert earlier() == ["t"], "its round goes on"


def test_what_hangs_is_told_and_ended_with_a_reason(client: Client, two_connectors: FakeLeader) -> None:
    from ringfence.audit.models import AuditEntry

    (row,) = client.get(HANGING).json()["hanging"]
    assert (row["topic"], row["producer_id"], row["transactional_id"]) == ("t", 7, "g-team-a-0")
    body = {"reason": "readers wait", "topic": "t", "partition": 0, "producer_id": 7}
    assert client.post(HANGING, body, content_type=JSON).json()["hanging"] == [row]
    (sent,) = [sent for kind, _, sent in two_connectors.asked if kind == "end_hanging"]
    assert {key: sent[key] for key in ("topic", "partition", "producer_id", "reason", "tasks")} == {**body, "tasks": 2}
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.message, entry.outcome) == ("fence", "readers wait", "done")
    for wrong in ({"reason": ""}, {"topic": 1}, {"topic": ""}, {"partition": True}, {"producer_id": -1}, {"more": 1}):
        problem(client.post(HANGING, {**body, **wrong}, content_type=JSON), 400)
    two_connectors.refusal = Refusal(409, "wait")
    problem(client.post(HANGING, body, content_type=JSON), 409)


def test_ending_what_hangs_needs_the_verb_fence(
    client: Client, two_connectors: FakeLeader, login_required: None
) -> None:
    body = {"reason": "x", "topic": "t", "partition": 0, "producer_id": 7}
    editor = bearer(account("ann", ("editor", "*")))
    assert "`fence`" in problem(client.post(HANGING, body, content_type=JSON, headers=editor), 403)
    assert client.get(HANGING, headers=editor).status_code == 200
