"""PagerDuty's Events API v2: one alert for each incident, resolved with it.

Format: https://developer.pagerduty.com/docs/send-alert-event
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ringfence.alerts.messages import facts_of
from ringfence.alerts.senders.channel import SECRET, URL, Channel, Endpoint
from ringfence.alerts.senders.posting import encode, post

ADDRESS: Final = "https://events.pagerduty.com/v2/enqueue"
_LONGEST_SUMMARY: Final = 1024
_SEVERITIES: Final = {
    **dict.fromkeys(("bad-records", "data-old", "stalled", "source-metric", "foreign-record"), "warning"),
    "test": "info",
}


def body_of(message: Mapping[str, Any], routing_key: str) -> dict[str, Any]:
    """Return the event. A test is an alert of the lowest severity, so that somebody sees it arrive."""
    url = str(message.get("url", ""))
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": "resolve" if message.get("what") == "resolved" else "trigger",
        "dedup_key": key_of(message),
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


def key_of(message: Mapping[str, Any]) -> str:
    """Return what an incident's messages have in common."""
    return f"ringfence-incident-{message.get('incident') or 'test'}"


def _send(to: Endpoint, message: Mapping[str, Any], _delivery: int) -> int:
    return post(to.url or ADDRESS, encode(body_of(message, to.secret)))


CHANNEL: Final = Channel("pagerduty", "PagerDuty (Events API v2)", (URL, SECRET), _send, ADDRESS)
