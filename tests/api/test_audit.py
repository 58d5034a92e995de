"""Every write leaves an entry that says who, from where, what, before and after, and what came of it."""

import json
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from ringfence.access.principal import EVERYBODY_HERE, ROLES, Principal, Right, Verb
from ringfence.dispatch import Refusal
from tests.support.leader import FakeLeader

CONFIG = {"connector.class": "VerifiableSource", "topic": "t", "pin": "123456"}
JSON = "application/json"
MASTER = {"authorization": "Bearer master"}


pytestmark = pytest.mark.usefixtures("login_required")


@pytest.fixture
def client() -> Client:
    return Client(headers={"host": "localhost", **MASTER}, raise_request_exception=False, REMOTE_ADDR="10.1.2.3")


def entries() -> list[Any]:
    from ringfence.audit.models import AuditEntry

    return list(AuditEntry.objects.order_by("id"))


def make(client: Client, leader: FakeLeader, name: str = "c") -> None:
    assert client.post("/connectors", {"name": name, "config": CONFIG}, content_type=JSON).status_code == 201
    leader.start(name)


def test_a_change_of_a_configuration_from_create_to_delete(client: Client, leader: FakeLeader) -> None:
    make(client, leader)
    changed = {**CONFIG, "topic": "u", "pin": "654321"}
    client.put("/connectors/c/config", changed, content_type=JSON)
    client.delete("/connectors/c")
    created, edited, deleted = entries()
    assert (created.user, created.via, created.address) == ("token", "server token", "10.1.2.3")
    assert (created.action, created.connector, created.outcome, created.status) == ("create", "c", "done", 201)
    assert created.request == "POST /connectors"
    assert json.loads(created.before) is None
    assert json.loads(created.after)["config"] == {**CONFIG, "name": "c", "pin": "[hidden]"}
    assert json.loads(edited.before)["config"]["topic"] == "t"
    assert json.loads(edited.after)["config"]["topic"] == "u"
    assert json.loads(edited.changed) == ["pin", "topic"], "that a secret was changed is told, its values are not"
    assert (deleted.action, json.loads(deleted.after)) == ("delete", None)
    assert not any(secret in str(vars(entry)) for entry in entries() for secret in ("123456", "654321"))


def test_states_and_offsets_before_and_after(client: Client, leader: FakeLeader) -> None:
    make(client, leader)
    leader.offsets.offset("c", {"id": 0}, {"seqno": 5})
    leader.project()
    client.put("/connectors/c/stop")
    client.delete("/connectors/c/offsets")
    client.post("/ui/connectors/c/actions/resume")
    _, stopped, reset, resumed = entries()
    assert (json.loads(stopped.before)["target"], json.loads(stopped.after)["target"]) == ("RUNNING", "STOPPED")
    assert (reset.action, json.loads(reset.before)["offsets"]) == (
        "offsets",
        [{"partition": {"id": 0}, "offset": {"seqno": 5}}],
    )
    assert (resumed.action, resumed.request) == ("operate", "POST /ui/connectors/c/actions/resume")


def test_what_concerns_no_connector_is_there_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from ringfence.fencing.topics import log_levels

    monkeypatch.setattr(log_levels, "set_level", lambda name, level: [name])
    client.put("/admin/loggers/some.logger", {"level": "DEBUG"}, content_type=JSON)
    (entry,) = entries()
    assert (entry.action, entry.connector, json.loads(entry.after)) == ("admin", "", {"some.logger": "DEBUG"})


def test_refused_and_failed_writes_are_there_as_such(client: Client, leader: FakeLeader) -> None:
    from tests.support.accounts import account, bearer

    ann = bearer(account("ann", ("viewer", "*")))
    make(client, leader)
    assert client.put("/connectors/c/stop", headers=ann).status_code == 403
    assert client.put("/connectors/c/config", {"connector.class": "None"}, content_type=JSON).status_code == 400
    client.post("/connectors", "{", content_type=JSON)
    leader.refusal = Refusal(500, "Request timed out. It waited.")
    client.put("/connectors/c/pause")
    leader.refusal = Refusal(409, "It was changed in between.")
    client.post("/ui/connectors/c/actions/pause")
    _, refused, invalid, broken, unknown, conflict = entries()
    assert (refused.user, refused.via, refused.outcome) == ("ann", "token ci", "refused")
    assert "`operate`" in refused.message
    assert (invalid.outcome, invalid.status, invalid.connector) == ("failed", 400, "c")
    assert (broken.outcome, broken.connector) == ("failed", "")
    assert (unknown.outcome, unknown.message) == ("unknown", "Request timed out. It waited.")
    assert (conflict.outcome, conflict.message) == ("failed", "It was changed in between.")


def test_the_entry_stands_before_the_write_begins(
    client: Client, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A web process that dies in between leaves an entry that says: unknown."""
    from ringfence import dispatch

    make(client, leader)
    seen: list[tuple[str, bool]] = []

    def dies(*args: object, **kwargs: object) -> None:
        seen.extend((entry.outcome, entry.completed) for entry in entries()[1:])
        raise KeyboardInterrupt

    monkeypatch.setattr(dispatch, "command", dies)
    with pytest.raises(KeyboardInterrupt):
        client.put("/connectors/c/stop")
    assert seen == [("unknown", False)]
    assert entries()[-1].outcome == "unknown"


def test_without_the_trail_nothing_is_written(
    client: Client, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import OperationalError

    from ringfence.audit.models import AuditEntry

    make(client, leader)
    asked = len(leader.asked)

    def away(*args: object, **kwargs: object) -> None:
        raise OperationalError("disk I/O error")

    monkeypatch.setattr(AuditEntry.objects, "create", away)
    assert client.put("/connectors/c/stop").status_code == 503
    assert client.post("/connectors", {"name": "d", "config": CONFIG}, content_type=JSON).status_code == 503
    assert len(leader.asked) == asked


def test_a_write_that_is_done_stays_so_when_its_entry_cannot_be_completed(
    client: Client, leader: FakeLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ringfence.audit.models import AuditEntry

    make(client, leader)

    def away(*args: object, **kwargs: object) -> None:
        raise DatabaseError("disk I/O error")

    monkeypatch.setattr(AuditEntry.objects, "complete", away)
    assert client.put("/connectors/c/stop").status_code == 204
    assert (entries()[-1].outcome, entries()[-1].completed) == ("unknown", False)


def test_entries_are_neither_changed_nor_deleted(client: Client, leader: FakeLeader) -> None:
    from ringfence.audit.models import AppendOnly, AuditEntry

    make(client, leader)
    entry = entries()[0]
    entry.user = "somebody else"
    for attempt in (
        entry.save,
        entry.delete,
        AuditEntry.objects.all().delete,
        lambda: AuditEntry.objects.update(user="x"),
        lambda: AuditEntry.objects.bulk_update([entry], ["user"]),
    ):
        with pytest.raises(AppendOnly):
            attempt()
    assert not AuditEntry.objects.complete(entry.pk, outcome="failed"), "it is complete"
    assert entries()[0].user == "token"


def test_reading_leaves_no_entry_and_the_trail_shows_what_may_be_seen(client: Client, leader: FakeLeader) -> None:
    from ringfence.audit.trail import entries as listed

    make(client, leader, "team-a")
    make(client, leader, "other")
    client.get("/connectors")
    client.put("/connector-plugins/VerifiableSource/config/validate", CONFIG, content_type=JSON)
    client.post("/connectors", "{", content_type=JSON)
    shown = [(entry.action, entry.connector) for entry in listed(EVERYBODY_HERE)]
    assert shown == [("edit", ""), ("validate", ""), ("create", "other"), ("create", "team-a")]
    ann = Principal("ann", "token", (Right(ROLES["viewer"], "team-*"),))
    assert [entry.connector for entry in listed(ann)] == ["team-a"]
    assert not listed(Principal("bob", "token", (Right(frozenset({Verb.VIEW})),)))
    found = client.get("/api/v1/audit", {"connector": "other", "outcome": "done", "since": "0"}).json()["results"]
    assert [entry["connector"] for entry in found] == ["other"]
    assert client.get("/api/v1/audit", {"until": "1"}).json()["results"] == []
    assert client.get("/api/v1/audit", {"status__in": "1"}).status_code == 400
