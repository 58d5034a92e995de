"""Each kind of destination gets what its makers have published: checked here by a server on this machine.

The limits are theirs: Slack's reference of blocks, Adaptive Cards 1.4, PagerDuty's Events API v2, Opsgenie's Alert API.
"""

import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core import mail
from django.test import override_settings

from ringfence.alerts import deliveries, rule_editing
from ringfence.alerts.conditions import Finding, MessageKind
from ringfence.alerts.incident_report import write_report
from ringfence.alerts.models import Delivery, Destination, Incident, now_ms
from ringfence.alerts.senders import incident_message
from ringfence.audit.models import AuditEntry
from ringfence.history.models import ConfigVersion
from ringfence.projection.models import Connector, LogLine, Task
from tests.alerts.conftest import Receiver

pytestmark = pytest.mark.usefixtures("tables")

BEGAN_MS = 1_790_000_000_000
KEY = "R0123456789abcdef0123456789abcdef"
RECORD = {
    "stage": "TRANSFORMATION", "class_name": "Cast$Value", "alias": "c", "settings": ["transforms.c.spec"],
    "topic": "orders", "partition": '{"table":"orders"}', "offset": '{"id":4711}', "value": "the value of a customer",
}  # fmt: skip
TRACE = """Traceback (most recent call last):
  File "task.py", line 1, in poll
ConnectionRefusedError: no answer from <db> *5432*, pin hunter22
"""
SAID = (
    "ann@example.org",
    "https://wiki.example.org/orders",
    "Configuration version 2, by ann",
    "4711",
    "Paused, by bob",
)


@pytest.fixture(params=["short", "long"])
def incident(request: pytest.FixtureRequest) -> Incident:
    """An incident of which everything is known; a long one has the longest texts that there can be."""
    times = 400 if request.param == "long" else 1
    config = {"ringfence.owner": "ann@example.org", "ringfence.runbook": "https://wiki.example.org/orders"}
    Connector.objects.create(
        name="orders", known=True, state="RUNNING", since_ms=1, class_name="x", config=json.dumps(config)
    )
    task = Task.objects.create(
        connector="orders", number=0, known=True, state="FAILED", since_ms=1, trace=TRACE,
        config='{"db.password": "hunter22"}',
    )  # fmt: skip
    task.failure = json.dumps(RECORD)
    task.save()
    ConfigVersion.objects.create(
        connector="orders", number=2, config_offset=1, time_ms=BEGAN_MS - 60_000, user="ann", config="{}"
    )
    AuditEntry.objects.create(
        connector="orders", time_ms=BEGAN_MS - 120_000, user="bob", action="operate", outcome="done", completed=True,
        request="POST /ui/connectors/orders/actions/pause",
    )  # fmt: skip
    for number in range(times):
        LogLine.objects.create(
            connector="orders", time_ms=BEGAN_MS, level="ERROR", severity=40, message=f"line {number} " + "x" * 900
        )
    summary = ("Task 0 of orders has failed. no answer from <db> *5432*\u2028 " * times)[:1000]
    finding = Finding("task orders-0", "orders", summary, BEGAN_MS, 3)
    return Incident.objects.create(
        rule_name="A task has failed", kind="failed", subject=finding.subject, connector="orders", summary=summary,
        began_ms=BEGAN_MS, failures=3, opened_ms=BEGAN_MS + 5_000,
        report=write_report("failed", finding, BEGAN_MS + 5_000).dumps(),
    )  # fmt: skip


def send(receiver: Receiver, kind: str, incident: Incident | None, what: MessageKind, path: str = "") -> Any:
    """Send it through a destination of that kind, and return the body that arrived."""
    url = urlsplit(receiver.url)
    values = {"name": kind, "kind": kind, "url": f"http://{url.netloc}{path or url.path}", "secret": KEY}
    row = Destination.objects.filter(name=kind).first() or rule_editing.save_destination(values).row
    if incident is None:
        delivery = rule_editing.begin_test(row)
    else:
        with override_settings(PUBLIC_URL="https://ringfence.example.org"):
            body = incident_message(incident, what)
        delivery = deliveries.begin(row, body, incident, now_ms())
    assert deliveries.attempt(delivery.pk) == "sent", Delivery.objects.get(pk=delivery.pk).error
    content = receiver.got[-1][1]
    assert b"hunter22" not in content
    assert b"of a customer" not in content, "values of records are nobody's business there"
    return json.loads(content)


def says_everything(content: object, *, cut: bool = False) -> None:
    text = json.dumps(content, ensure_ascii=False).replace("\\\\", "")
    for each in SAID[: 2 if cut else None]:
        assert each in text
    assert "The source does not answer from that worker" in text  # what helps


def check_slack(body: Any, *, link: bool = True) -> None:
    """https://api.slack.com/reference/block-kit/blocks"""
    assert body["text"]
    assert len(body["blocks"]) <= 50
    for block in body["blocks"]:
        match block["type"]:
            case "header":
                assert block["text"]["type"] == "plain_text"
                assert 0 < len(block["text"]["text"]) <= 150
            case "section":
                texts = block.get("fields") or [block["text"]]
                assert 0 < len(texts) <= 10
                for text in texts:
                    assert text["type"] == "mrkdwn"
                    assert 0 < len(text["text"]) <= (2000 if "fields" in block else 3000)
                    assert not re.search(r"[<>]|&(?!amp;|lt;|gt;)", text["text"]), "control characters are escaped"
            case "actions":
                (button,) = block["elements"]
                assert (button["type"], button["text"]["type"]) == ("button", "plain_text")
                assert len(button["text"]["text"]) <= 75
                assert button["url"].startswith("https://ringfence.example.org/ui/incidents/")
            case other:
                raise AssertionError(other)
    assert any(block["type"] == "actions" for block in body["blocks"]) == link


def check_teams(body: Any, *, link: bool = True) -> None:
    """https://adaptivecards.io/explorer/, and the envelope of Teams; 28 kB are the most that it takes."""
    assert len(json.dumps(body)) < 28_000
    assert body["type"] == "message"
    (card,) = body["attachments"]
    assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
    content = card["content"]
    assert (content["type"], content["version"]) == ("AdaptiveCard", "1.4")
    title, *more = content["body"]
    assert (title["type"], title["wrap"]) == ("TextBlock", True)
    assert title["color"] in ("Default", "Attention", "Good")
    for block in more:
        assert block["type"] == "FactSet"
        for fact in block["facts"]:
            assert fact.keys() == {"title", "value"}
            assert fact["title"]
            assert fact["value"]
    if link:
        (act,) = content["actions"]
        assert (act["type"], act["title"]) == ("Action.OpenUrl", "Open the incident")
    assert ("actions" in content) == link


def check_pagerduty(body: Any, *, link: bool = True) -> None:
    """https://developer.pagerduty.com/docs/send-alert-event; an event has at most 512 kB."""
    assert len(json.dumps(body)) < 512_000
    assert (body["routing_key"], body["event_action"] in ("trigger", "resolve")) == (KEY, True)
    assert 0 < len(body["dedup_key"]) <= 255
    payload = body["payload"]
    assert 0 < len(payload["summary"]) <= 1024
    assert payload["source"]
    assert payload["severity"] in ("critical", "error", "warning", "info")
    assert datetime.fromisoformat(payload["timestamp"]).tzinfo is not None
    assert all(isinstance(payload[name], str) for name in ("component", "group", "class"))
    assert isinstance(payload["custom_details"], dict)
    for each in body.get("links", []):
        assert each.keys() == {"href", "text"}
    assert ("links" in body) == link


def check_opsgenie(body: Any, *, link: bool = True) -> None:
    """https://docs.opsgenie.com/docs/alert-api#create-alert"""
    assert 0 < len(body["message"]) <= 130
    assert 0 < len(body["alias"]) <= 512
    assert len(body["description"]) <= 15_000
    assert len(body["tags"]) <= 20
    assert all(0 < len(tag) <= 50 for tag in body["tags"])
    assert sum(len(name) + len(value) for name, value in body["details"].items()) <= 8000
    assert all(isinstance(value, str) for value in body["details"].values())
    assert 0 < len(body["entity"]) <= 512
    assert 0 < len(body["source"]) <= 100
    assert body["priority"] in ("P1", "P2", "P3", "P4", "P5")
    assert ("https://" in body["description"]) == link


CHECKS: dict[str, Callable[..., None]] = {
    "slack": check_slack, "teams": check_teams, "pagerduty": check_pagerduty, "opsgenie": check_opsgenie,
}  # fmt: skip


@pytest.mark.parametrize("kind", CHECKS)
def test_the_published_format(receiver: Receiver, incident: Incident, kind: str) -> None:
    body = send(receiver, kind, incident, MessageKind.FIRING)
    CHECKS[kind](body)
    says_everything(body, cut=len(incident.summary) > 500)


@pytest.mark.parametrize("kind", CHECKS)
def test_a_test_message_has_it_too(receiver: Receiver, kind: str) -> None:
    CHECKS[kind](send(receiver, kind, None, MessageKind.TEST), link=False)


def test_pagerduty_resolves_the_alert_that_it_opened(receiver: Receiver, incident: Incident) -> None:
    opened = send(receiver, "pagerduty", incident, MessageKind.FIRING, "/v2/enqueue")
    over = send(receiver, "pagerduty", incident, MessageKind.RESOLVED)
    check_pagerduty(over)
    assert (opened["event_action"], over["event_action"]) == ("trigger", "resolve")
    assert opened["dedup_key"] == over["dedup_key"] == f"ringfence-incident-{incident.pk}"
    assert receiver.paths == ["/v2/enqueue", "/v2/enqueue"]


def test_opsgenie_closes_the_alert_that_it_opened(receiver: Receiver, incident: Incident) -> None:
    opened = send(receiver, "opsgenie", incident, MessageKind.FIRING, "/v2/alerts")
    closed = send(receiver, "opsgenie", incident, MessageKind.RESOLVED)
    assert [headers["authorization"] for headers, _ in receiver.got] == [f"GenieKey {KEY}"] * 2
    first, second = map(urlsplit, receiver.paths)
    assert (first.path, second.path) == ("/v2/alerts", f"/v2/alerts/{opened['alias']}/close")
    assert parse_qs(second.query) == {"identifierType": ["alias"]}
    assert closed.keys() <= {"user", "source", "note"}


def test_their_own_addresses_are_filled_in_and_a_key_is_needed() -> None:
    for kind, address in (
        ("pagerduty", "https://events.pagerduty.com/v2/enqueue"),
        ("opsgenie", "https://api.opsgenie.com/v2/alerts"),
    ):
        assert rule_editing.save_destination({"name": kind, "kind": kind, "secret": KEY}).row.url == address
        with pytest.raises(ValueError, match="needs the key"):
            rule_editing.save_destination({"name": f"{kind} 2", "kind": kind})


def test_a_key_goes_to_no_receiver_of_another_kind(receiver: Receiver) -> None:
    row = rule_editing.save_destination({"name": "d", "kind": "pagerduty", "secret": KEY}).row
    with pytest.raises(ValueError, match="needs the key"):
        rule_editing.save_destination({"name": "d", "kind": "opsgenie", "url": receiver.url}, row)


def test_mail_and_webhook_say_as_much(receiver: Receiver, incident: Incident) -> None:
    says_everything(send(receiver, "webhook", incident, MessageKind.FIRING))
    duty = rule_editing.save_destination({"name": "duty", "kind": "mail", "recipients": ["ann@example.org"]}).row
    delivery = deliveries.begin(duty, incident_message(incident, MessageKind.FIRING), incident, now_ms())
    with override_settings(EMAIL_BACKEND="django.core.mail.backends.locmem.EmailBackend"):
        mail.outbox = []
        assert deliveries.attempt(delivery.pk) == "sent"
    body = mail.outbox[0].body
    says_everything(body.partition("\n{")[0])  # what people read stands before the JSON


@pytest.mark.parametrize("kind", ["pagerduty", "opsgenie"])
@pytest.mark.parametrize("key", ["k" * 15 + "\u00e9", "k" * 16 + "\r\nX-Injected: 1", "a key with spaces in it"])
def test_a_key_that_no_header_takes_is_refused(kind: str, key: str) -> None:
    with pytest.raises(ValueError, match="signs of ASCII only"):
        rule_editing.save_destination({"name": "n", "kind": kind, "secret": key})
    assert not Destination.objects.exists()


def test_what_a_sender_did_not_foresee_counts_as_a_try(caplog: pytest.LogCaptureFixture) -> None:
    """Else it would be tried for ever, each minute. Neither log nor row shows the address."""
    row = Destination.objects.create(name="n", kind="opsgenie", url=f"http://127.0.0.1:1/{KEY}", secret="\u00e9" * 16)
    message = {"what": "firing", "summary": "s", "incident": 1, "connector": "c"}
    with override_settings(ALERTS_LOOPBACK=True):
        delivery = deliveries.begin(row, message, None, now_ms())
        assert deliveries.attempt(delivery.pk) == deliveries.WAITING
    delivery.refresh_from_db()
    assert (delivery.tries, delivery.error) == (1, "It could not be sent (UnicodeEncodeError)")
    assert KEY not in caplog.text
