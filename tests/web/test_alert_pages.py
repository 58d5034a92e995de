"""Alerts for people and tools: rules and destinations are made, changed, tested and deleted; secrets never come out."""

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings

from ringfence.access import tokens
from ringfence.access.models import Grant
from ringfence.alerts import tasks
from ringfence.alerts.models import Delivery, Destination, Incident, IncidentNote, Rule, Silence, now_ms
from ringfence.audit.models import AuditEntry
from tests.support.leader import FakeLeader
from tests.support.pages import text
from tests.support.topics import connector

JSON = "application/json"
API = "/api/v1/alerts"
SLACK = "https://hooks.example.org/services/T0/B0/secret-part"


@pytest.fixture(autouse=True)
def handed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(tasks, "enqueue_delivery", found.append)
    return found


def post(client: Client, path: str, body: object) -> Any:
    return client.post(f"{API}/{path}", json.dumps(body), content_type=JSON)


def put(client: Client, path: str, body: object) -> Any:
    return client.put(f"{API}/{path}", json.dumps(body), content_type=JSON)


def kept() -> str:
    return json.dumps([*AuditEntry.objects.values(), *Delivery.objects.values()])


def test_rules_and_destinations_through_the_api(client: Client, handed: list[int]) -> None:
    made = post(client, "destinations", {"name": "chat", "kind": "slack", "url": SLACK})
    assert made.status_code == 201
    chat = made.json()
    assert chat["url"] == "https://hooks.example.org/[hidden]"
    hook = post(client, "destinations", {"name": "hook", "kind": "webhook", "url": "https://x.example.org/h"}).json()
    assert len(hook["secret"]) > 30  # made, and shown this once
    assert client.get(f"{API}/destinations/{hook['id']}").json()["secret"] == "[hidden]"
    changed = put(
        client, f"destinations/{chat['id']}", {**{k: v for k, v in chat.items() if k != "id"}, "name": "talk"}
    )
    assert changed.json()["name"] == "talk"
    assert Destination.objects.get(name="talk").url == SLACK
    rule = post(client, "rules", {"name": "r", "kind": "failed", "pattern": "team-*", "destinations": ["talk"]})
    assert (rule.status_code, rule.json()["seconds"]) == (201, 60)
    number = rule.json()["id"]
    body = {"name": "r", "kind": "stalled", "seconds": 0, "enabled": False, "destinations": ["talk", "hook"]}
    assert put(client, f"rules/{number}", body).json() == {
        "id": number,
        "pattern": "*",
        **body,
        "destinations": ["hook", "talk"],
    }
    assert client.get(f"{API}/rules?enabled=false").json()["count"] == 1
    tested = post(client, f"destinations/{chat['id']}/test", {})
    assert (tested.status_code, handed) == (202, [tested.json()["id"]])
    assert client.get(f"{API}/deliveries?what=test").json()["results"][0]["state"] == "waiting"
    assert client.delete(f"{API}/rules/{number}").status_code == 204
    assert client.delete(f"{API}/destinations/{chat['id']}").status_code == 204
    assert client.get(f"{API}/rules/{number}").status_code == 404
    assert "secret-part" not in kept()
    assert hook["secret"] not in kept()
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"create alert rule", "change alert rule", "test alert destination", "delete alert destination"} <= actions


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("rules", {"name": "", "kind": "failed"}, "name must be"),
        ("rules", {"name": "r", "kind": "odd"}, "kind must be one of failed"),
        ("rules", {"name": "r", "kind": "failed", "seconds": -1}, "seconds must be"),
        ("rules", {"name": "r", "kind": "failed", "seconds": True}, "seconds must be"),
        ("rules", {"name": "r", "kind": "failed", "destinations": ["gone"]}, "no destination gone"),
        ("rules", {"name": "r", "kind": "failed", "odd": 1}, "Unknown field"),
        ("destinations", {"name": "d", "kind": "webhook", "url": "http://127.0.0.1/x"}, "this machine itself"),
        ("destinations", {"name": "d", "kind": "webhook", "url": "http://10.0.0.1/x"}, "private network"),
        ("destinations", {"name": "d", "kind": "slack", "url": "file:///x"}, "must begin with https"),
        ("destinations", {"name": "d", "kind": "slack", "url": "https://x.org/[hidden]"}, "hidden"),
        ("destinations", {"name": "d", "kind": "webhook", "url": "https://x.org/", "secret": "short"}, "secret must"),
        ("destinations", {"name": "d", "kind": "mail", "recipients": ["nobody"]}, "not a mail address"),
        ("destinations", {"name": "d", "kind": "mail", "recipients": []}, "1 to 20"),
    ],
)
def test_bad_input_is_refused_with_a_reason(client: Client, path: str, body: object, said: str) -> None:
    refused = post(client, path, body)
    assert (refused.status_code, said in refused.json()["detail"]) == (400, True), refused.content
    assert not Rule.objects.exists()
    assert not Destination.objects.exists()


def test_pages_make_change_test_and_delete(client: Client, handed: list[int]) -> None:
    given = {"name": "ops", "kind": "webhook", "url": "https://x.example.org/h/secret-part", "enabled": "on"}
    shown_once = client.post("/ui/incidents/destinations/new", given)
    secret = re.search(r'readonly value="([^"]+)"', text(shown_once))
    assert secret is not None
    assert shown_once["cache-control"] == "no-store"
    row = Destination.objects.get()
    edit = text(client.get(f"/ui/incidents/destinations/{row.pk}"))
    assert "https://x.example.org/[hidden]" in edit
    assert "secret-part" not in edit
    assert secret[1] not in edit
    again = {**given, "url": "https://x.example.org/[hidden]", "name": "ops 2"}
    assert client.post(f"/ui/incidents/destinations/{row.pk}", again).status_code == 302
    row.refresh_from_db()
    assert (row.url, row.secret, row.name) == (given["url"], secret[1], "ops 2")
    rule = {
        "name": "fails",
        "kind": "failed",
        "pattern": "*",
        "seconds": "30",
        "destinations": ["ops 2"],
        "enabled": "on",
    }
    assert client.post("/ui/incidents/rules/new", rule).status_code == 302
    assert "is taken" in text(client.post("/ui/incidents/rules/new", rule))
    page = text(client.get("/ui/incidents/rules")) + text(client.get("/ui/incidents/destinations"))
    for expected in ("fails", "ops 2", "a connector or one of its tasks has failed", "Send a test"):
        assert expected in page
    assert "secret-part" not in page
    assert "style=" not in page
    assert client.post(f"/ui/incidents/destinations/{row.pk}/test").status_code == 302
    assert handed == [Delivery.objects.get().pk]
    number = Rule.objects.get().pk
    assert client.post(f"/ui/incidents/rules/{number}/delete", {"confirm": "fail"}).status_code == 400
    assert client.post(f"/ui/incidents/rules/{number}/delete", {"confirm": "fails"}).status_code == 302
    assert not Rule.objects.exists()


def test_incidents_are_shown_to_those_who_may_see_the_connector(client: Client, leader: FakeLeader) -> None:
    now = now_ms()
    for name in ("team-a", "other"):
        Incident.objects.create(
            rule_name="r",
            kind="failed",
            subject=name,
            connector=name,
            summary=f"Connector {name} has failed",
            opened_ms=now,
        )
    Delivery.objects.create(
        destination_name="ops", what="firing", body="{}", created_ms=now, due_ms=now, error="x answered 500"
    )
    assert text(client.get("/ui/incidents", headers={"hx-request": "true"})).count("has failed") == 2
    with override_settings(NO_LOGIN="", ALLOWED_HOSTS=["*"]):
        ann = User.objects.create_user("ann")
        Grant.objects.create(user=ann, what="viewer", pattern="team-*")
        headers = {"authorization": f"Bearer {tokens.create(ann, 'ci', ['admin'])[1]}"}
        page = text(client.get("/ui/incidents", headers=headers))
        assert ("team-a" in page, "other" in page, "answered 500" in page) == (True, False, False)
        found = client.get(f"{API}/incidents?open=true", headers=headers).json()["results"]
        assert [one["connector"] for one in found] == ["team-a"]
        for path in ("rules", "destinations", "deliveries"):
            assert client.get(f"{API}/{path}", headers=headers).status_code == 403
        assert client.post(f"{API}/rules", "{}", content_type=JSON, headers=headers).status_code == 403
        assert client.get("/ui/incidents/rules/new", headers=headers).status_code == 403


@pytest.mark.parametrize("part", ["incident-cause", "incident-axis", "story"])
def test_the_page_of_an_incident_stays_when_its_connector_is_deleted(client: Client, part: str) -> None:
    now = now_ms()
    incident = Incident.objects.create(
        rule_name="r", kind="failed", subject="gone", connector="gone", summary="gone has failed", opened_ms=now
    )
    headers = {"hx-request": "true", "hx-target": part}
    answer = client.get(f"/ui/incidents/{incident.pk}", headers=headers)
    assert answer.status_code == 200
    assert "what else happened" not in text(answer)


def test_the_first_start_has_rules_that_anybody_would_want() -> None:
    """Those of the migration; a cluster that has rules of its own gets none."""
    from importlib import import_module

    from django.apps import apps

    create = import_module("ringfence.alerts.migrations.0003_first_rules").create
    create(apps, None)
    more = import_module("ringfence.alerts.migrations.0004_source_metrics").create
    more(apps, None)
    foreign = import_module("ringfence.alerts.migrations.0005_foreign_records").create
    foreign(apps, None)
    kinds = {"failed", "stalled", "open-transaction", "fencing-failed", "no-leader", "topic-lost", "source-metric"}
    kinds.add("foreign-record")
    assert set(Rule.objects.values_list("kind", flat=True)) == kinds
    create(apps, None)
    more(apps, None)
    foreign(apps, None)
    assert Rule.objects.count() == len(kinds)


def test_an_incident_is_acknowledged_and_silenced(client: Client, leader: FakeLeader) -> None:
    leader.config.config(connector("team-a"))
    leader.start("team-a")
    now = now_ms()
    one = Incident.objects.create(
        rule_name="r", kind="failed", subject="task team-a-0", connector="team-a", summary="Task 0 has failed",
        opened_ms=now, began_ms=now - 60_000, failures=3,
    )  # fmt: skip
    at = f"/ui/incidents/{one.pk}"

    def badge() -> str:
        found = re.search(r'id="incident-badge"[^>]*>(\d*)</b>', text(client.get("/ui/connectors")))
        assert found is not None
        return found[1]

    assert badge() == "1"
    assert at in text(client.get("/ui/connectors/team-a"))
    assert "/ui/connectors/team-a" in text(client.get(at))
    assert client.post(f"{at}/silence", {"hours": "0", "why": "x"}).status_code == 400
    assert client.post(f"{at}/silence", {"hours": "2", "why": " "}).status_code == 400
    assert client.post(f"{at}/silence", {"hours": "2", "why": "a planned outage"}).status_code == 302
    assert badge() == ""
    assert "a planned outage" in text(client.get(at))
    number = Silence.objects.get().pk
    assert client.post(f"/ui/incidents/silences/{number}/end").status_code == 302
    assert badge() == "1"
    assert client.post(f"{at}/acknowledge").status_code == 302
    one.refresh_from_db()
    assert (one.acknowledged_ms >= now, badge()) == (True, "")
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"acknowledge incident", "silence alerts", "end silence of alerts"} <= actions


def test_who_may_not_operate_a_connector_neither_acknowledges_nor_silences_it(
    client: Client, leader: FakeLeader
) -> None:
    now = now_ms()
    made = [
        Incident.objects.create(rule_name="r", kind="failed", subject=name, connector=name, summary="s", opened_ms=now)
        for name in ("team-a", "other", "")
    ]
    silence = Silence.objects.create(connector="", until_ms=now + 60_000, created_ms=now)
    with override_settings(NO_LOGIN="", ALLOWED_HOSTS=["*"]):
        ann = User.objects.create_user("ann")
        Grant.objects.create(user=ann, what="operator", pattern="ann-*")
        Grant.objects.create(user=ann, what="viewer", pattern="team-*")
        headers = {"authorization": f"Bearer {tokens.create(ann, 'ci', ['admin'])[1]}"}
        for one, status in zip(made, (403, 404, 403), strict=True):
            for act in ("acknowledge", "silence", "notes"):
                given = {"hours": "1", "why": "x", "text": "x"}
                answer = client.post(f"/ui/incidents/{one.pk}/{act}", given, headers=headers)
                assert answer.status_code == status, (one.connector, act)
            answer = client.post(
                f"{API}/incidents/{one.pk}/acknowledgement", content_type="application/json", headers=headers
            )
            assert answer.status_code == status, one.connector
            body = {"connector": one.connector, "hours": 1, "reason": "x"}
            answer = client.post(f"{API}/silences", body, content_type="application/json", headers=headers)
            assert answer.status_code == 403, one.connector
        assert client.delete(f"{API}/silences/{silence.pk}", headers=headers).status_code == 403
        assert client.post(f"/ui/incidents/silences/{silence.pk}/end", headers=headers).status_code == 403
    assert not Incident.objects.exclude(acknowledged_ms=0).exists()
    assert Silence.objects.count() == 1
    assert not IncidentNote.objects.exists()


def test_nobody_fills_an_incident_or_the_list_of_silences(client: Client, leader: FakeLeader) -> None:
    """Its page shows all notes, and each page of everybody counts incidents without those that are silenced."""
    now = now_ms()
    one = Incident.objects.create(
        rule_name="r", kind="failed", subject="team-a", connector="team-a", summary="s", opened_ms=now
    )
    at = f"/ui/incidents/{one.pk}"
    hostile = "<script>alert(1)</script>\u202e"
    assert client.post(f"{at}/notes", {"text": hostile}).status_code == 302
    assert "<script>alert" not in text(client.get(at))
    IncidentNote.objects.bulk_create([IncidentNote(incident=one, time_ms=now, text="x") for _ in range(199)])
    for note in ("one more", "x" * 4001, " ", "a\x00b"):
        assert client.post(f"{at}/notes", {"text": note}).status_code == 400
    assert IncidentNote.objects.count() == 200

    def silence(**changes: object) -> int:
        body = {"connector": "team-a", "hours": 1, "reason": "x", **changes}
        status: int = client.post(f"{API}/silences", body, content_type=JSON).status_code
        return status

    for wrong in ({"connector": "n" * 250}, {"connector": "a\x00"}, {"reason": "x" * 1001}, {"reason": "\x00"}):
        assert silence(**wrong) == 400, wrong
    assert client.post(f"{at}/silence", {"hours": "1", "why": "a\x00b"}).status_code == 400
    assert [silence(connector=f"team-{number}") for number in range(52)] == [201] * 50 + [400] * 2
    assert client.get("/ui/connectors").status_code == 200


def test_the_api_acknowledges_and_silences(client: Client, leader: FakeLeader) -> None:
    now = now_ms()
    one = Incident.objects.create(
        rule_name="r", kind="failed", subject="team-a", connector="team-a", summary="s", opened_ms=now
    )
    at, json_type = f"{API}/incidents/{one.pk}", "application/json"
    assert client.get(at).json()["acknowledged_ms"] == 0
    assert client.post(f"{at}/acknowledgement", content_type=json_type).json()["acknowledged_ms"] >= now
    assert client.post(f"{API}/incidents/999/acknowledgement", content_type=json_type).status_code == 404
    silences = f"{API}/silences"
    right = {"connector": "team-a", "hours": 2, "reason": "a planned outage"}
    for wrong in ({"hours": 0}, {"hours": True}, {"hours": 169}, {"reason": " "}, {"connector": 7}, {"more": 1}):
        answer = client.post(silences, {**right, **wrong}, content_type=json_type)
        assert answer.status_code == 400, wrong
    made = client.post(silences, right, content_type=json_type)
    assert made.status_code == 201
    assert [each["why"] for each in client.get(silences).json()["results"]] == ["a planned outage"]
    assert client.delete(f"{silences}/{made.json()['id']}").status_code == 204
    assert client.get(silences).json()["results"] == []
    assert client.delete(f"{silences}/{made.json()['id']}").status_code == 404
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    done = [each for each in actions if each in ("acknowledge incident", "silence alerts", "end silence of alerts")]
    assert done == ["acknowledge incident", "silence alerts", "end silence of alerts"], actions
