"""The messages that destinations get (docs/alerts.md)."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from ringfence.alerts.conditions import MessageKind
from ringfence.alerts.models import Incident


def incident_message(incident: Incident, what: MessageKind) -> dict[str, Any]:
    """Return the JSON message about an incident."""
    return {
        "what": what.value,
        "rule": incident.rule_name,
        "kind": incident.kind,
        "incident": incident.pk,
        "subject": incident.subject,
        "connector": incident.connector,
        "summary": incident.summary,
        "opened_ms": incident.opened_ms,
        "resolved_ms": incident.resolved_ms,
        "began_ms": incident.began_ms,
        "failures": incident.failures,
        "url": f"{settings.PUBLIC_URL}/ui/alerts/incidents/{incident.pk}" if settings.PUBLIC_URL else "",
    }


def trial_message(now: int) -> dict[str, Any]:
    """Return a message with which somebody tests a destination; it has the fields of the others."""
    trial = Incident(
        rule_name="test",
        kind="test",
        subject="test",
        summary="This is a test: alerts of Ringfence arrive here.",
        opened_ms=now,
        began_ms=now,
    )
    return {**incident_message(trial, MessageKind.TEST), "url": ""}


def text_of(message: Mapping[str, Any]) -> str:
    """Return the message as one line, for chats and the subject of a mail."""
    word = {"firing": "ALERT", "resolved": "RESOLVED", "test": "TEST"}.get(str(message.get("what")), "")
    return f"[{word}] {message.get('rule', '')}: {message.get('summary', '')}"
