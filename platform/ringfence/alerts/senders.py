"""The messages of alerts (docs/alerts.md), and one try to send one in the format of its receiver.

Errors contain nothing of an address except its host, and no secret.
"""

import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from django.conf import settings
from django.core.mail import EmailMessage

from ringfence.alerts import ssrf_guard
from ringfence.alerts.conditions import MessageKind
from ringfence.alerts.incident_report import IncidentReport
from ringfence.alerts.models import Incident
from ringfence.alerts.ssrf_guard import AllowedNetworks
from ringfence.connectors.sdk.egress import Policy, Resolve

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


URL, SECRET, RECIPIENTS = "url", "secret", "recipients"


class NotSent(Exception):
    """A try that failed. final: another try would fail as well; status: of the answer, 0 if there was none."""

    def __init__(self, message: str, *, final: bool = False, status: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.final = final
        self.status = status


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A destination, with its secrets in clear text."""

    kind: str
    url: str
    secret: str
    recipients: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Channel:
    """A kind of destination. word: its name for people; fields: which of URL, SECRET and RECIPIENTS it has.

    send: makes one try with the number of the delivery, and returns the answer's status. url: the address where none is
    given, "" if one must be; makes_secret: a missing secret is made, otherwise it must be given.
    """

    kind: str
    word: str
    fields: tuple[str, ...]
    send: Callable[[Endpoint, Mapping[str, Any], int], int]
    url: str = ""
    makes_secret: bool = False


_SECONDS = 10.0
"""For a whole try, whatever the receiver does: it occupies a thread of a worker."""
_LATER = (408, 409, 425, 429)

# At INFO, it logs complete URLs, and an address may contain its own password.
logging.getLogger("httpx").setLevel(logging.WARNING)
logging.getLogger("httpcore").setLevel(logging.WARNING)


def allowed_addresses() -> AllowedNetworks:
    return AllowedNetworks(bool(settings.ALERTS_PRIVATE), bool(settings.ALERTS_LOOPBACK))


class _CheckedAddress(Policy):
    """Of the address to which the guard has led: nothing is resolved again."""

    def addresses(self, host: str, port: int, resolve: Resolve | None = None) -> list[str]:
        return [host]


def encode(content: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(content), ensure_ascii=False).encode(errors="replace")


def post(url: str, body: bytes, headers: Mapping[str, str] | None = None) -> int:
    """Return the answer's status, if it is one of success. Raises `NotSent`. Redirects are not followed."""
    try:
        target = ssrf_guard.target(url, allowed_addresses())
    except ssrf_guard.AddressDenied as refused:
        raise NotSent(str(refused)) from None
    all_headers = {
        "Host": target.host_header,
        "Content-Type": "application/json",
        "User-Agent": "ringfence-alerts",
        **(headers or {}),
    }
    import httpx  # here: it takes a web process that sends nothing a twentieth of its start

    from ringfence.connectors.sdk.guarded_httpx import restrict_client

    try:
        # No proxy from the environment: it would resolve the name itself, to an unchecked address.
        with httpx.Client(timeout=_SECONDS, trust_env=False) as client:
            restrict_client(client, _CheckedAddress(""), _SECONDS, with_bodies=False)
            request = client.build_request("POST", target.url, content=body, headers=all_headers)
            request.extensions["sni_hostname"] = target.host
            status = client.send(request).status_code
    except httpx.HTTPError as error:
        raise NotSent(f"{target.host} did not answer ({type(error).__name__})") from None
    if status < 300:
        return status
    if status < 400:
        raise NotSent(
            f"{target.host} answered {status}: redirects are not followed, use the final address", status=status
        )
    final = status < 500 and status not in _LATER
    raise NotSent(f"{target.host} answered {status}", final=final, status=status)


SIGNATURE, TIMESTAMP, DELIVERY = "X-Ringfence-Signature", "X-Ringfence-Timestamp", "X-Ringfence-Delivery"


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return `sha256=` and the HMAC of timestamp, a dot and the body. The timestamp prevents replays of
    old messages.
    """
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _send_to_webhook(to: Endpoint, message: Mapping[str, Any], delivery: int) -> int:
    body, now = encode(message), str(int(time.time()))
    signed = {SIGNATURE: signature(to.secret, now, body), TIMESTAMP: now} if to.secret else {}
    return post(to.url, body, {**signed, DELIVERY: str(delivery)})


_WEBHOOK: Final = Channel("webhook", "Webhook (JSON, signed)", (URL, SECRET), _send_to_webhook, makes_secret=True)


_LONGEST_HEADER: Final = 150
_LONGEST_TEXT: Final = 3000
_LONGEST_FIELD: Final = 1900
_MOST_FIELDS: Final = 10


def slack_body(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message as Slack takes it.

    Compatible receivers (Mattermost, Rocket.Chat) show `text`. Format: https://api.slack.com/reference/block-kit/blocks
    and https://api.slack.com/messaging/webhooks
    """
    url, text = str(message.get("url", "")), text_of(message)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": text[:_LONGEST_HEADER], "emoji": False}}
    ]
    if len(text) > _LONGEST_HEADER:
        summary = _escape(str(message.get("summary", "")))[:_LONGEST_TEXT]
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": summary}})
    fields = [f"*{name}*\n{_escape(value)}"[:_LONGEST_FIELD] for name, value in facts_of(message)]
    if fields:
        marked_fields = [{"type": "mrkdwn", "text": field} for field in fields[:_MOST_FIELDS]]
        blocks.append({"type": "section", "fields": marked_fields})
    if url:
        label = {"type": "plain_text", "text": "Open the incident"}
        blocks.append({"type": "actions", "elements": [{"type": "button", "text": label, "url": url}]})
    return {"text": f"{text} {url}".strip(), "blocks": blocks}


def _escape(text: str) -> str:
    """Escape Slack's three control characters, so that no text becomes a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _send_to_slack(to: Endpoint, message: Mapping[str, Any], _delivery: int) -> int:
    return post(to.url, encode(slack_body(message)))


_SLACK: Final = Channel("slack", "Slack or compatible", (URL,), _send_to_slack)


_COLOURS: Final = {"firing": "Attention", "resolved": "Good"}


def teams_body(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message as a workflow of Teams takes it.

    It is an Adaptive Card (https://adaptivecards.io, 1.4), for a workflow "when a Teams webhook request is received":
    https://learn.microsoft.com/power-automate/teams/send-a-message-in-teams
    """
    colour = _COLOURS.get(str(message.get("what")), "Default")
    title = {"type": "TextBlock", "text": _plain(text_of(message)), "weight": "Bolder", "size": "Medium", "wrap": True}
    facts = [{"title": name, "value": _plain(value)} for name, value in facts_of(message)]
    content: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": [{**title, "color": colour}, *([{"type": "FactSet", "facts": facts}] if facts else [])],
    }
    if url := str(message.get("url", "")):
        content["actions"] = [{"type": "Action.OpenUrl", "title": "Open the incident", "url": url}]
    card = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": content}
    return {"type": "message", "attachments": [card]}


def _plain(text: str) -> str:
    """Escape what cards read as Markdown, so that a record's text makes no link."""
    return "".join(f"\\{each}" if each in "\\[]*_`" else each for each in text)


def _send_to_teams(to: Endpoint, message: Mapping[str, Any], _delivery: int) -> int:
    return post(to.url, encode(teams_body(message)))


_TEAMS: Final = Channel("teams", "Microsoft Teams", (URL,), _send_to_teams)


_PAGERDUTY_ADDRESS: Final = "https://events.pagerduty.com/v2/enqueue"
_LONGEST_SUMMARY: Final = 1024
_SEVERITIES: Final = {
    **dict.fromkeys(("bad-records", "data-old", "stalled", "source-metric", "foreign-record"), "warning"),
    "test": "info",
}


def pagerduty_body(message: Mapping[str, Any], routing_key: str) -> dict[str, Any]:
    """Return the event. A test is an alert of the lowest severity, so that somebody sees it arrive.

    Events API v2: one alert for each incident, resolved with it. Format:
    https://developer.pagerduty.com/docs/send-alert-event
    """
    url = str(message.get("url", ""))
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "resolve" if message.get("what") == "resolved" else "trigger",
        "dedup_key": incident_key(message),
        "client": "Ringfence",
    }
    if url:
        event |= {"client_url": url, "links": [{"href": url, "text": "Open the incident"}]}
    began = datetime.fromtimestamp(int(message.get("began_ms") or 0) / 1000, UTC)
    event["payload"] = {
        "summary": str(message.get("summary", ""))[:_LONGEST_SUMMARY],
        "source": str(message.get("connector") or "ringfence"),
        "severity": _SEVERITIES.get(str(message.get("kind")), "critical"),
        "timestamp": began.isoformat(timespec="milliseconds"),
        "component": str(message.get("subject", "")),
        "group": str(message.get("rule", "")),
        "class": str(message.get("kind", "")),
        "custom_details": dict(facts_of(message)),
    }
    return event


def incident_key(message: Mapping[str, Any]) -> str:
    """Return what an incident's messages have in common."""
    return f"ringfence-incident-{message.get('incident') or 'test'}"


def _send_to_pagerduty(to: Endpoint, message: Mapping[str, Any], _delivery: int) -> int:
    return post(to.url or _PAGERDUTY_ADDRESS, encode(pagerduty_body(message, to.secret)))


_PAGERDUTY: Final = Channel(
    "pagerduty", "PagerDuty (Events API v2)", (URL, SECRET), _send_to_pagerduty, _PAGERDUTY_ADDRESS
)


_OPSGENIE_ADDRESS: Final = "https://api.opsgenie.com/v2/alerts"
_LONGEST_MESSAGE: Final = 130
_LONGEST_DESCRIPTION: Final = 15_000
_LONGEST_DETAILS: Final = 8_000
_PRIORITIES: Final = {
    **dict.fromkeys(("failed", "no-leader", "topic-lost", "cluster", "fencing-failed"), "P2"),
    "test": "P5",
}


def opsgenie_body(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the alert to create.

    Alert API (Jira Service Management's is the same): one alert for each incident, closed with it. Format:
    https://docs.opsgenie.com/docs/alert-api
    """
    summary, url = str(message.get("summary", "")), str(message.get("url", ""))
    return {
        "message": summary[:_LONGEST_MESSAGE],
        "alias": _alias_of(message),
        "description": f"{summary}\n{url}".strip()[:_LONGEST_DESCRIPTION],
        "details": _cut_details({**dict(facts_of(message)), **({"url": url} if url else {})}),
        "entity": str(message.get("connector") or "ringfence")[:512],
        "source": "Ringfence",
        "tags": [each for each in ("ringfence", str(message.get("kind", ""))) if each],
        "priority": _PRIORITIES.get(str(message.get("kind")), "P3"),
    }


def _cut_details(details: Mapping[str, str]) -> dict[str, str]:
    """Return as many details as the API takes together."""
    short_details, length = dict[str, str](), 0
    for name, text in details.items():
        part = text[: max(0, _LONGEST_DETAILS - length - len(name))]
        length += len(name) + len(part)
        if part:
            short_details[name] = part
    return short_details


def _alias_of(message: Mapping[str, Any]) -> str:
    """Return what an incident's messages have in common."""
    return f"ringfence-incident-{message.get('incident') or 'test'}"


def _send_to_opsgenie(to: Endpoint, message: Mapping[str, Any], _delivery: int) -> int:
    base, headers = (to.url or _OPSGENIE_ADDRESS).rstrip("/"), {"Authorization": f"GenieKey {to.secret}"}
    if message.get("what") != "resolved":
        return post(base, encode(opsgenie_body(message)), headers)
    closing = f"{base}/{quote(_alias_of(message), safe='')}/close?identifierType=alias"
    return post(closing, encode({"source": "Ringfence", "note": str(message.get("summary", ""))}), headers)


_OPSGENIE: Final = Channel("opsgenie", "Opsgenie", (URL, SECRET), _send_to_opsgenie, _OPSGENIE_ADDRESS)


_LONGEST_SUBJECT: Final = 200


def _send_mail(to: Endpoint, message: Mapping[str, Any], _delivery: int) -> int:
    if not settings.EMAIL_HOST and settings.EMAIL_BACKEND.endswith(".smtp.EmailBackend"):
        raise NotSent("No mail server is set: set RINGFENCE_SMTP_URL for the workers", final=True)
    subject = " ".join(text_of(message).split())[:_LONGEST_SUBJECT]
    mail = EmailMessage(subject, _mail_text(message), settings.DEFAULT_FROM_EMAIL, list(to.recipients))
    try:
        count = mail.send()
    except (OSError, ValueError) as error:  # smtplib's errors are OSErrors, and their texts contain no password
        raise NotSent(f"The mail server did not accept it ({type(error).__name__})") from None
    if not count:
        raise NotSent("The mail server did not accept it")
    return 250


def _mail_text(message: Mapping[str, Any]) -> str:
    lines = [str(message.get("summary", "")), str(message.get("url", "")), ""]
    lines += [f"{name}: {text}" for name, text in facts_of(message)]
    return "\n".join([*lines, "", json.dumps(dict(message), indent=2, ensure_ascii=False)])


_MAIL: Final = Channel("mail", "Mail", (RECIPIENTS,), _send_mail)


CHANNELS: Final[Mapping[str, Channel]] = {
    one.kind: one for one in (_WEBHOOK, _SLACK, _TEAMS, _PAGERDUTY, _OPSGENIE, _MAIL)
}
"""The kinds of destinations, by their keys. To add one: a function that sends, and its `Channel` here."""


def send(to: Endpoint, message: Mapping[str, Any], delivery: int) -> int:
    """Send it once, and return the answer's status, 250 for mail. Raises `NotSent`."""
    channel = CHANNELS.get(to.kind)
    if channel is None:
        raise NotSent(f"Unknown kind of destination {to.kind!r}", final=True)
    return channel.send(to, message, delivery)
