"""`/api/v1/share-groups`: who sees and changes which, numbers before acts, ledgers beside groups, and the trail."""

import json
from typing import Any

import pytest
from django.test import Client

from ringfence.audit.models import AuditEntry, Outcome
from ringfence.dispatch import Refusal
from tests.support.accounts import JSON, MASTER, account, bearer
from tests.support.leader import FakeLeader

pytestmark = pytest.mark.usefixtures("login_required")

PATH = "/api/v1/share-groups"
WHY = {"reason": "a bad release"}


def names(client: Client, headers: dict[str, str]) -> list[str]:
    return [row["group"] for row in client.get(PATH, headers=headers).json()["results"]]


def entries(connector: str = "") -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(connector=connector, action="share-groups").order_by("pk"))


def give_ledger(two_connectors_of_teams: FakeLeader, name: str, low: int, done: list[list[int]]) -> None:
    """As if task 0 of a connector had committed so far."""
    partition = {"topic_id": "id-of-t", "partition": 0, "slot": 0}
    two_connectors_of_teams.offsets.offset(name, partition, {"topic": "t", "low": low, "done": done})
    two_connectors_of_teams.project()


def stop(client: Client, name: str) -> None:
    assert client.put(f"/connectors/{name}/stop", headers=MASTER).status_code in (202, 204)


def test_a_pattern_names_groups_and_a_connectors_own_group_is_seen_with_it(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    assert names(client, MASTER) == ["busy", "g-other", "g-team-a", "payments", "team-a-queue", "0"]
    team = bearer(account("ann", ("viewer", "team-*")))
    assert names(client, team) == ["g-team-a", "team-a-queue"]
    (own, _) = client.get(PATH, headers=team).json()["results"]
    assert (own["connectors"], own["lag"]) == (["team-a"], 20)
    assert client.get(f"{PATH}/g-team-a", headers=team).json()["partitions"][0]["start"] == 100
    refused = client.get(f"{PATH}/payments", headers=team)
    assert refused.status_code == 403
    assert "`view` on share group payments" in refused.json()["detail"]


def test_naming_a_foreign_group_in_a_configuration_gives_no_right_to_it(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    ann = bearer(account("ann", ("editor share-groups", "team-*")))
    config = {"connector.class": "VerifiableSource", "topic": "t", "share.group": "payments"}
    assert client.put("/connectors/team-a/config", config, content_type=JSON, headers=ann).status_code == 200
    assert names(client, ann) == ["team-a-queue"]  # its own by name is not read by it any more
    for method, path, body in (
        ("patch", f"{PATH}/payments/offsets", {"to": "earliest", **WHY}),
        ("delete", f"{PATH}/payments?reason=x", None),
        ("get", f"{PATH}/payments/offsets", None),
    ):
        arguments: dict[str, Any] = {} if body is None else {"data": json.dumps(body), "content_type": JSON}
        assert getattr(client, method)(path, headers=ann, **arguments).status_code == 403
    # And whoever may act on the group may not move that connector's offsets along with it.
    bob = bearer(account("bob", ("share-groups", "payments"), ("offsets", "other")))
    refused = client.patch(f"{PATH}/payments/offsets", {"to": "earliest", **WHY}, content_type=JSON, headers=bob)
    assert refused.status_code == 403
    assert "`offsets` on connector team-a" in refused.json()["detail"]
    assert not [kind for kind, _, _ in two_connectors_of_teams.asked if kind == "share_group"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("patch", "{}/offsets", {"to": "earliest", **WHY}),
        ("delete", "{}/offsets?topic=t&reason=x", None),
        ("delete", "{}?reason=x", None),
        ("patch", "{}/settings", {"settings": {"share.record.lock.duration.ms": "20000"}, **WHY}),
    ],
)
def test_acts_take_a_permission_of_their_own(
    client: Client, two_connectors_of_teams: FakeLeader, method: str, path: str, body: dict[str, Any] | None
) -> None:
    arguments: dict[str, Any] = {} if body is None else {"data": json.dumps(body), "content_type": JSON}
    editor = bearer(account("ann", ("editor", "*")))
    asked = list(two_connectors_of_teams.asked)
    refused = getattr(client, method)(f"{PATH}/{path.format('payments')}", headers=editor, **arguments)
    assert refused.status_code == 403
    assert "share-groups" in refused.json()["detail"]
    assert [kind for kind, _, _ in two_connectors_of_teams.asked[len(asked) :]] in ([], ["share_groups"])
    allowed = bearer(account("bob", ("share-groups", "pay*")))
    answer = getattr(client, method)(f"{PATH}/{path.format('payments')}", headers=allowed, **arguments)
    assert answer.status_code == 200, answer.content
    kind, connector, sent = next(
        each for each in reversed(two_connectors_of_teams.asked) if "act" in each[2] and "owners" in each[2]
    )
    assert (kind, connector, sent["group"], sent["owners"]) == ("share_group", None, "payments", [])
    (entry,) = [each for each in entries() if each.status == 200]
    assert (entry.user, entry.outcome) == ("bob", Outcome.DONE)
    assert "payments" in entry.message


def test_a_dry_run_tells_numbers_and_changes_nothing(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    body = {"to": "earliest", "topic": "t", "partitions": [0], "dry_run": True, **WHY}
    told = client.patch(f"{PATH}/payments/offsets", body, content_type=JSON, headers=MASTER).json()
    assert (told["again"], told["skipped"], told["refusal"], told["dry_run"]) == (60, 0, "", True)
    (one,) = told["partitions"]
    assert (one["before"], one["after"], one["first"], one["end"]) == (100, 40, 40, 120)
    assert two_connectors_of_teams.asked[-1] == (
        "share_group",
        "payments",
        {"act": {"kind": "alter", "to": "earliest", "topics": ["t"], "partitions": [0]}},
    )
    assert not [each for each in two_connectors_of_teams.asked if "owners" in each[2]]


def test_members_are_named_by_the_dry_run(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    told = client.delete(f"{PATH}/busy?reason=x&dry_run=true", headers=MASTER).json()
    assert "1 member is in share group busy: app (10.0.0.7)" in told["refusal"]
    two_connectors_of_teams.refusal = Refusal(
        409, "1 members are in share group busy: app (10.0.0.7). Nothing was changed."
    )
    assert client.delete(f"{PATH}/busy?reason=x", headers=MASTER).status_code == 409


def test_of_a_connectors_group_the_ledger_is_counted_and_moved(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    give_ledger(two_connectors_of_teams, "team-a", 60, [[70, 79], [95, 99]])
    shown = client.get(f"{PATH}/g-team-a/offsets", headers=MASTER).json()
    place = {"topic": "t", "topic_id": "id-of-t", "partition": 0, "low": 60, "done": [[70, 79], [95, 99]]}
    assert shown["ledger"] == [place]
    body = {"to": {"offset": 90}, **WHY}
    told = client.patch(f"{PATH}/g-team-a/offsets", {**body, "dry_run": True}, content_type=JSON, headers=MASTER)
    foreseen = told.json()
    # From 90 on, 95 to 99 are done; of 60 to 89 all but 70 to 79 are not.
    assert (foreseen["again"], foreseen["skipped"], foreseen["connectors"]) == (5, 20, ["team-a"])
    assert "team-a must be STOPPED" in foreseen["refusal"]
    stop(client, "team-a")
    done = client.patch(f"{PATH}/g-team-a/offsets", body, content_type=JSON, headers=MASTER)
    assert (done.status_code, done.json()["again"], done.json()["skipped"]) == (200, 5, 20)
    kind, connector, sent = two_connectors_of_teams.asked[-2]
    assert (kind, connector, sent["owners"], sent["reason"]) == ("share_group", "team-a", ["team-a"], "a bad release")
    snapshots = client.get("/api/v1/connectors/team-a/offset-snapshots", headers=MASTER).json()["results"]
    assert [each["why"] for each in snapshots] == ["before share group g-team-a was moved"]
    entry = entries("team-a")[-1]
    assert (entry.outcome, json.loads(entry.before)["count"]) == (Outcome.DONE, 1)
    assert "a bad release. Share group g-team-a, alter: 5 again, 20 skipped" in entry.message


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"to": "first", **WHY}, "earliest"),
        ({"to": {"offset": -1}, **WHY}, "earliest"),
        ({"to": "latest"}, "reason"),
        ({"to": "latest", "partitions": [0], **WHY}, "give topic"),
        ({"to": "latest", "topic": "t", "partitions": [-1], **WHY}, "partitions"),
        ({"to": "latest", "dry_run": "yes", **WHY}, "dry_run"),
        ({"to": "latest", "offset": 4, **WHY}, "Unknown field"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    client: Client, two_connectors_of_teams: FakeLeader, body: Any, said: str
) -> None:
    refused = client.patch(f"{PATH}/payments/offsets", body, content_type=JSON, headers=MASTER)
    assert refused.status_code == 400
    assert said in refused.json()["detail"]


def test_a_group_that_is_not_there_is_a_404(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    assert client.get(f"{PATH}/no-such-group", headers=MASTER).status_code == 404


def test_archived_records_are_told_and_processed_now_by_a_connector_that_runs(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    give_ledger(two_connectors_of_teams, "team-a", 60, [[70, 79], [95, 109]])
    path = f"{PATH}/g-team-a/archived"
    (told,) = client.get(path, headers=MASTER).json()["partitions"]
    waiting = [[60, 69], [80, 94], [110, 114]]
    assert told == {"topic": "t", "partition": 0, "archived": 12, "waiting": waiting}
    dry = client.post(path, {**WHY, "dry_run": True}, content_type=JSON, headers=MASTER)
    assert (dry.status_code, dry.json()["waiting"], dry.json()["refusal"]) == (200, 30, "")
    assert not [one for one in two_connectors_of_teams.asked if one[0] == "sweep_now"]
    none = client.post(path, {**WHY, "topic": "other"}, content_type=JSON, headers=MASTER)
    assert (none.status_code, none.json()["waiting"]) == (202, 0)
    done = client.post(path, WHY, content_type=JSON, headers=MASTER)
    assert (done.status_code, done.json()["waiting"]) == (202, 30)
    _, connector, sent = next(one for one in reversed(two_connectors_of_teams.asked) if one[0] == "sweep_now")
    assert (connector, sent["places"]) == ("team-a", [["id-of-t", 0, *pair] for pair in waiting])
    assert "30 offsets to be processed now" in entries("team-a")[-1].message
    stop(client, "team-a")
    refused = client.post(path, WHY, content_type=JSON, headers=MASTER)
    assert refused.status_code == 409
    assert "team-a is not running" in refused.json()["detail"]
    foreign = client.post(f"{PATH}/payments/archived", WHY, content_type=JSON, headers=MASTER)
    assert foreign.status_code == 409
    assert "No connector reads" in foreign.json()["detail"]
    viewer = bearer(account("eve", ("editor", "*")))
    assert client.get(path, headers=viewer).status_code == 200
    assert client.post(path, WHY, content_type=JSON, headers=viewer).status_code == 403
