"""`/api/v1/consumer-groups` and its pages: who sees which groups, and what of them."""

from typing import Any

import pytest
from django.test import Client

from ringfence.access.models import Grant
from ringfence.projection.models import ActiveTopic
from ringfence.requests.request import Refusal
from tests.support.accounts import MASTER, bearer
from tests.support.accounts import account as plain_account
from tests.support.leader import FakeLeader
from tests.support.pages import text

pytestmark = pytest.mark.usefixtures("login_required")

PATH = "/api/v1/consumer-groups"


@pytest.fixture(autouse=True)
def _active(two_connectors_of_teams: FakeLeader) -> None:
    ActiveTopic.objects.create(connector="team-a", topic="team-a.events", since_ms=5)
    ActiveTopic.objects.create(connector="other", topic="payroll", since_ms=5)


def account(name: str, grant: tuple[str, str], topics: tuple[str, ...] = ("*",)) -> dict[str, str]:
    user = plain_account(name, grant)
    Grant.objects.filter(user=user).update(topics=" ".join(topics))
    return bearer(user)


def groups(client: Client, headers: dict[str, str], query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"{PATH}{query}", headers=headers)
    assert answer.status_code == 200, answer.content
    return list(answer.json()["results"])


def names(client: Client, headers: dict[str, str]) -> list[str]:
    return [each["group"] for each in groups(client, headers)]


def test_a_group_is_seen_by_whoever_may_read_one_of_its_topics(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    assert names(client, account("ann", ("viewer", "*"))) == []
    assert names(client, account("bob", ("operator", "team-*"))) == ["dash"]
    assert names(client, account("bea", ("operator", "team-*"), topics=("else",))) == []
    reader = account("cat", ("view view-data read-topics", "*"), topics=("ord*",))
    (billing,) = groups(client, reader)
    assert [each["topic"] for each in billing["topics"]] == ["orders"], "payroll is another connector's"
    assert (billing["more_topics"], billing["lag"], billing["lag_to_end"]) == (True, 5, 12)
    assert names(client, account("dan", ("view view-data read-topics", "*"))) == ["billing", "dash"], "none internal"
    assert names(client, MASTER) == ["billing", "dash", "w"]
    groups(client, MASTER, "?search=a&topic=t")
    assert two_connectors_of_teams.asked[-1] == ("consumer_groups", None, {"search": "a", "topic": "t"})


def test_one_group_shows_partitions_and_members_of_readable_topics_only(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    reader = account("cat", ("view view-data read-topics", "*"), topics=("ord*",))
    shown = client.get(f"{PATH}/billing", headers=reader).json()
    assert [each["topic"] for each in shown["partitions"]] == ["orders"]
    assert shown["members"][0]["assigned"] == [{"topic": "orders", "partition": 0}]
    assert (shown["more_topics"], shown["lag"]) == (True, 5)
    for hidden in ("dash", "w", "nobody"):
        assert client.get(f"{PATH}/{hidden}", headers=reader).status_code == 404, hidden


def test_the_transaction_that_is_waited_for_names_its_task_to_whoever_may_see_it(
    client: Client, two_connectors_of_teams: FakeLeader
) -> None:
    (one,) = client.get(f"{PATH}/dash", headers=account("bob", ("operator", "team-*"))).json()["partitions"]
    assert (one["lag"], one["lag_to_end"]) == (5, 12)
    assert (one["holder"]["connector"], one["holder"]["task"]) == ("team-a", 1)
    blind = account("eve", ("view view-data read-topics", "team-a.*"))
    (other,) = client.get(f"{PATH}/dash", headers=blind).json()["partitions"]
    assert (other["holder"]["connector"], other["holder"]["task"]) == ("", -1)


def test_the_pages_say_what_waits_and_for_whom(client: Client, two_connectors_of_teams: FakeLeader) -> None:
    page = text(client.get("/ui/consumer-groups", headers=MASTER))
    assert 'href="/ui/consumer-groups/billing"' in page
    assert "3 more groups are not shown" in page
    one = text(client.get("/ui/consumer-groups/dash", headers=MASTER))
    for shown in ("team-a, task 1", "7 behind it", "in 1 partition", "&lt;b&gt;app&lt;/b&gt;", "begun"):
        assert shown in one, shown
    assert client.get("/ui/consumer-groups/nobody", headers=MASTER).status_code == 404
    two_connectors_of_teams.refusal = Refusal(503, "Kafka does not answer", retry=True)
    assert "Kafka does not answer" in text(client.get("/ui/consumer-groups", headers=MASTER))


def test_the_platforms_own_groups_stand_apart(client: Client) -> None:
    first, _, apart = text(client.get("/ui/consumer-groups", headers=MASTER)).partition('id="own-groups"')
    link = 'href="/ui/consumer-groups/{}"'
    assert link.format("w") not in first
    assert link.format("w") in apart
    assert link.format("billing") in first
    assert link.format("billing") not in apart
