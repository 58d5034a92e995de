"""The messages that destinations get (docs/alerts.md)."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from django.conf import settings

from ringfence.alerts.conditions import MessageKind
from ringfence.alerts.incident_report import IncidentReport
from ringfence.alerts.models import Incident

_SHOWN_CHANGES: Final = 3
_SHOWN_LINES: Final = 5


def incident_message(incident: Incident, what: MessageKind) -> dict[str, Any]:
    """Return the JSON message about an incident, with what its page says about the cause. It has no record's value."""
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
        **IncidentReport.parse(incident.report).to_json(),
        "url": f"{settings.PUBLIC_URL}/ui/incidents/{incident.pk}" if settings.PUBLIC_URL else "",
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


def facts_of(message: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a person on call asks first, as names and texts; what is not known is left out.

    Times are UTC: who reads it may be anywhere.
    """
    return [(name, text) for name, text in _facts(message) if text]


def _facts(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Connector", str(message.get("connector", ""))
    yield "Since", _moment(message.get("began_ms"))
    yield "Over", _moment(message.get("resolved_ms"))
    failures = int(message.get("failures") or 0)
    yield "Failures", str(failures) if failures > 1 else ""
    yield "What helps", str(message.get("remedy", ""))
    record = message.get("record") or {}
    yield "Record", " ".join(str(record[key]) for key in ("partition", "offset") if record.get(key))
    yield "Fails at", str(record.get("stage", ""))
    yield "Owner", str(message.get("owner", ""))
    yield "Runbook", str(message.get("runbook", ""))
    changes = [f"{_moment(one['time_ms'])}: {one['text']}" for one in message.get("changes") or ()]
    yield "Changed before", "\n".join(changes[:_SHOWN_CHANGES])
    lines = [f"{_moment(one['time_ms'])} {one['level']} {one['message']}" for one in message.get("log") or ()]
    yield "Log", "\n".join(lines[:_SHOWN_LINES])


def _moment(time_ms: object) -> str:
    if not isinstance(time_ms, int) or not time_ms:
        return ""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
