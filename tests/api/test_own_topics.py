"""`/api/v1/topics`: who sees and reads which topics, what a worker is asked for, and what the trail says."""

import json
from typing import Any

import pytest
from django.test import Client

from ringfence.access.models import Grant
from ringfence.audit.models import AuditEntry, Outcome
from ringfence.projection.models import ActiveTopic
from tests.support.accounts import MASTER, bearer
from tests.support.accounts import account as plain_account
from tests.support.leader import FakeLeader

pytestmark = pytest.mark.usefixtures("login_required")

PATH = "/api/v1/topics"


@pytest.fixture(autouse=True)
def _active(two_connectors_of_teams: FakeLeader) -> None:
    ActiveTopic.objects.create(connector="team-a", topic="team-a.events", since_ms=5)
    ActiveTopic.objects.create(connector="other", topic="payroll", since_ms=5)


def account(name: str, grant: tuple[str, str], topics: tuple[str, ...] = ("*",)) -> Any:
    user = plain_account(name, grant)
    Grant.objects.filter(user=user).update(topics=" ".join(topics))
    return user


def names(client: Client, headers: dict[str, str], query: str = "") -> list[str]:
    answer = client.get(f"{PATH}{query}", headers=headers)
    assert answer.status_code == 200, answer.content
    return [row["topic"] for row in answer.json()["results"]]


def read(client: Client, topic: str, headers: dict[str, str], query: str = "") -> Any:
    return client.get(f"{PATH}/{topic}/records{query}", headers=headers)


def questions(two_connectors_of_teams: FakeLeader, kind: str) -> list[dict[str, Any]]:
    return [asked for name, _, asked in two_connectors_of_teams.asked if name == kind]


def test_a_list_has_topics_of_connectors_that_one_may_see_and_those_that_one_may_read(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    viewer = bearer(account("ann", ("viewer", "team-*")))
    assert names(client, viewer) == ["team-a.events"]
    (row,) = client.get(PATH, headers=viewer).json()["results"]
    assert (row["connectors"], row["readable"], row["partitions"], row["offsets"]) == (["team-a"], False, 3, 1234)
    reader = bearer(account("bob", ("view view-data read-topics", "*"), topics=("t", "ord*")))
    assert names(client, reader) == ["orders", "payroll", "t", "team-a.events"], "those of connectors are seen, too"
    assert names(client, MASTER) == ["orders", "payroll", "t", "team-a.events"], "internal ones are asked for"
    assert names(client, MASTER, "?internal=true&search=CONF") == ["connect-configs"]
    assert names(client, reader, "?internal=true") == ["orders", "payroll", "t", "team-a.events"]
    assert client.get(f"{PATH}/payroll", headers=viewer).status_code == 404
    assert client.get(f"{PATH}/connect-configs", headers=reader).status_code == 404
    assert client.get(f"{PATH}/team-a.events", headers=viewer).json()["connectors"] == ["team-a"]


def test_records_of_a_connectors_topic_take_view_data_on_it_and_are_read_as_the_connector(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    viewer, operator = bearer(account("ann", ("viewer", "team-*"))), bearer(account("bob", ("operator", "team-*")))
    assert read(client, "team-a.events", viewer).status_code == 403
    assert questions(two_connectors_of_teams, "records") == []
    answer = read(client, "team-a.events", operator, "?from=earliest&limit=7&isolation=read_uncommitted&partition=2")
    assert answer.status_code == 200, answer.content
    assert [each["seen"] for each in answer.json()["records"]] == ["waiting", "open", "aborted", "committed"]
    assert answer.json()["cursor"] == '{"0":3}'
    (asked,) = questions(two_connectors_of_teams, "records")
    assert (asked["via"], asked["internal"], asked["records"], asked["partitions"]) == ("team-a", False, 7, [2])
    assert asked["start"] == {"from": "earliest", "value": 0, "cursor": None}
    assert (asked["committed_only"], [each["name"] for each in asked["writers"]]) == (False, ["team-a"])
    entry = AuditEntry.objects.get(outcome=Outcome.DONE, connector="team-a", action="view-data")
    assert entry.user == "bob"
    assert entry.message == "read topic team-a.events: from earliest, as read_uncommitted, partition 2"
    for topic in ("payroll", "orders", "connect-configs", "__consumer_offsets"):
        assert read(client, topic, operator).status_code == 403, topic
    assert read(client, "payroll", operator, "?connector=team-a").status_code == 400
    assert read(client, "payroll", operator, "?connector=other").status_code == 403
    assert len(questions(two_connectors_of_teams, "records")) == 1


def test_a_grant_of_topics_limits_what_of_a_connectors_topics_is_read(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    operator = bearer(account("bob", ("operator", "team-*"), topics=("else",)))
    for query in ("", "?connector=team-a"):
        assert read(client, "team-a.events", operator, query).status_code == 403
    assert questions(two_connectors_of_teams, "records") == []


@pytest.mark.parametrize(
    ("verbs", "pattern", "topics", "allowed"),
    [
        ("view-data read-topics", "*", ("*",), True),
        ("view-data read-topics", "*", ("ord*",), True),
        ("view-data read-topics", "*", ("t",), False),
        ("view-data read-topics", "ord*", ("*",), True),
        ("view-data read-topics", "team-*", ("*",), False),
        ("view-data", "*", ("*",), False),
        ("read-topics", "*", ("*",), False),
        ("admin", "team-*", ("*",), False),
        ("admin", "*", ("*",), True),
    ],
)
def test_topics_that_nobody_here_writes_take_read_topics_on_their_name(
    client: Client,
    two_connectors_of_teams: FakeLeader,
    verbs: str,
    pattern: str,
    topics: tuple[str, ...],
    allowed: bool,
) -> None:
    who = bearer(account("ann", (verbs, pattern), topics=topics))
    answer = read(client, "orders", who)
    assert (answer.status_code == 200) is allowed, answer.content
    assert [asked["via"] for asked in questions(two_connectors_of_teams, "records")] == ([""] if allowed else [])
    if not allowed and "view-data" in verbs:
        assert "read-topics" in answer.json()["detail"]
        assert [each.outcome for each in AuditEntry.objects.filter(user="ann", action="view-data")] == [Outcome.REFUSED]


def test_only_administrators_ask_for_internal_topics(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    reader = bearer(account("bob", ("view-data read-topics", "*")))
    read(client, "__consumer_offsets", reader)
    read(client, "__consumer_offsets", MASTER)
    first, second = questions(two_connectors_of_teams, "records")
    assert (first["internal"], second["internal"]) == (False, True), "the worker refuses the first"
    assert [each["name"] for each in second["writers"]] == ["other", "team-a"], "whose secrets are hidden"


def test_where_a_record_came_from_is_told_with_its_generation_to_those_who_see_its_connector(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    path = f"{PATH}/orders/records/1/7/origin"
    found = client.get(path, headers=MASTER).json()
    assert (found["partition"], found["offset"], found["source"]["exact"]) == (1, 7, True)
    assert found["source"]["offsets"][0]["offset"] == {"seqno": 9}
    assert found["transaction"]["coordinator_state"] == "Ongoing"
    reader = bearer(account("bob", ("view-data read-topics", "ord*")))
    blind = client.get(path, headers=reader).json()
    assert (blind["source"], blind["transaction"]["producer_id"]) == (None, 7)
    assert "may not see" in blind["why"]
    assert "team-a" not in json.dumps({key: blind[key] for key in ("source", "why")})


@pytest.mark.parametrize(
    "query",
    [
        "from=now", "offset=-1", "offset=x", "time=soon", "partition=x", "isolation=all", "limit=0", "limit=201",
        "cursor=[]", "cursor=%7B%22a%22%3A1%7D", "cursor=%7B%220%22%3A-1%7D", "registry=file:///etc", "size=3",
        "registry=http://u:p@host", "where=" + "x" * 1001,
    ],
)  # fmt: skip
def test_bad_input_is_refused_and_nothing_is_asked(
    client: Client, two_connectors_of_teams: FakeLeader, query: str
) -> None:
    answer = read(client, "orders", MASTER, f"?{query}")
    assert answer.status_code == 400
    assert answer.json()["detail"]
    assert questions(two_connectors_of_teams, "records") == []
