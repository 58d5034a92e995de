"""Deleting: one screen says what happens to tasks, transactions, offsets and topics; offsets go only where asked."""

import time
from typing import Any

import pytest
from django.test import Client

from ringfence import dispatch
from ringfence.access.principal import Principal, Right, Verb
from ringfence.audit.models import AuditEntry
from ringfence.dispatch import CommandResult, Refusal
from ringfence.history.models import OffsetSnapshot
from ringfence.projection.models import ActiveTopic, Connector, Task
from ringfence.requests.request import Command
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

FRAGMENT = {"hx-request": "true"}
PATH = "/ui/connectors/flights/delete"
SENT = {"confirm": "flights", "reason": "not needed"}


@pytest.fixture
def flights(leader: FakeLeader) -> FakeLeader:
    leader.config.config(connector("flights", topic="t"))
    leader.start("flights", tasks=2)
    leader.offsets.offset("flights", {"file": "a"}, {"position": 1})
    leader.project()
    ActiveTopic.objects.create(connector="flights", topic="landed", since_ms=5)
    return leader


def test_the_screen_says_what_happens_to_everything(client: Client, flights: FakeLeader) -> None:
    task = Task.objects.get(number=0)
    live = {"live_generation": task.generation, "live_attempt": task.attempt}
    Task.objects.filter(pk=task.pk).update(**live, open_records=17, open_since_ms=int(time.time() * 1000))
    page = text(client.get(PATH, headers=FRAGMENT))
    for shown in (
        "2 will commit",
        "task 0, 17 records",
        "<code>landed</code>",
        "Topics are never deleted",
        "1 committed",
    ):
        assert shown in page
    assert "<html" not in page
    assert "<!DOCTYPE html>" in text(client.get(PATH))
    assert flights.asked == []


@pytest.mark.parametrize("wrong", [{"confirm": "flight"}, {"confirm": ""}, {"reason": " "}, {"offsets": "both"}])
def test_what_is_not_right_deletes_nothing(client: Client, flights: FakeLeader, wrong: dict[str, str]) -> None:
    answer = client.post(PATH, {**SENT, **wrong}, headers=FRAGMENT)
    assert answer.status_code == 400
    assert 'role="alert"' in text(answer)
    assert flights.asked == []


def test_offsets_are_kept_unless_asked(client: Client, flights: FakeLeader) -> None:
    answer = client.post(PATH, {**SENT, "offsets": "keep"}, headers=FRAGMENT)
    assert answer.status_code == 200
    assert [kind for kind, _, _ in flights.asked] == ["delete"]
    assert "1 offset is kept" in text(answer)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.message) == ("delete", "not needed (offsets: keep)")
    assert f"Audit entry {entry.pk}" in text(answer)
    assert client.get("/ui/connectors/flights").status_code == 404
    assert client.get(PATH).status_code == 404


def stopping(flights: FakeLeader, monkeypatch: pytest.MonkeyPatch, refused_kind: str = "") -> None:
    """A stop that has had its round, as the real one is answered then."""
    given = dispatch.command

    def command(request: Command[Any], **more: Any) -> CommandResult[Any]:
        if request.name == refused_kind:
            raise Refusal(409, "The plugin will not have it")
        result = given(request, **more)
        if request.name == "stop":
            flights.start("flights", tasks=0)
        return result

    monkeypatch.setattr(dispatch, "command", command)


def test_offsets_are_discarded_after_a_stop_and_with_a_snapshot(
    client: Client, flights: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping(flights, monkeypatch)
    answer = client.post(PATH, {**SENT, "offsets": "discard"}, headers=FRAGMENT)
    assert [kind for kind, _, _ in flights.asked] == ["stop", "reset_offsets", "delete"]
    assert "snapshot 1 contains them" in text(answer)
    assert len(OffsetSnapshot.objects.get().entries) == 1


def test_where_offsets_cannot_be_discarded_nothing_is_deleted(
    client: Client, flights: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping(flights, monkeypatch, "reset_offsets")
    answer = client.post(PATH, {**SENT, "offsets": "discard"}, headers=FRAGMENT)
    assert answer.status_code == 409
    assert "It is stopped, and neither it nor its offsets are deleted: The plugin will not have it" in text(answer)
    assert "delete" not in [kind for kind, _, _ in flights.asked]
    assert Connector.objects.get().known


def test_discarding_offsets_takes_their_own_verb(
    client: Client, flights: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ringfence import middleware as middleware

    some = Principal("ann", "session", (Right(frozenset({Verb.VIEW, Verb.DELETE}), "*"),))
    monkeypatch.setattr(middleware, "identify", lambda request: some)
    refused = client.post(PATH, {**SENT, "offsets": "discard"}, headers=FRAGMENT)
    assert refused.status_code == 403
    assert "`offsets`" in text(refused)
    assert flights.asked == []
    assert client.post(PATH, SENT, headers=FRAGMENT).status_code == 200
