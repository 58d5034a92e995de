"""Opsgenie's Alert API (Jira Service Management's is the same): one alert for each incident, closed with it.

Format: https://docs.opsgenie.com/docs/alert-api
"""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from ringfence.alerts.messages import facts_of
from ringfence.alerts.senders.channel import SECRET, URL, Channel, Endpoint
from ringfence.alerts.senders.posting import encode, post

ADDRESS: Final = "https://api.opsgenie.com/v2/alerts"
_LONGEST_MESSAGE: Final = 130
_LONGEST_DESCRIPTION: Final = 15_000
_LONGEST_DETAILS: Final = 8_000
_PRIORITIES: Final = {
    **dict.fromkeys(("failed", "no-leader", "topic-lost", "cluster", "fencing-failed"), "P2"),
    "test": "P5",
}


def body_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the alert to create."""
    summary, url = str(message.get("summary", "")), str(message.get("url", ""))
    return {
        "message": summary[:_LONGEST_MESSAGE],
        "alias": alias_of(message),
        "description": f"{summary}\n{url}".strip()[:_LONGEST_DESCRIPTION],
        "details": _cut({**dict(facts_of(message)), **({"url": url} if url else {})}),
        "entity": str(message.get("connector") or "ringfence")[:512],
        "source": "Ringfence",
        "tags": [each for each in ("ringfence", str(message.get("kind", ""))) if each],
        "priority": _PRIORITIES.get(str(message.get("kind")), "P3"),
    }


def _cut(details: Mapping[str, str]) -> dict[str, str]:
    """Return as many details as the API takes together."""
    short_details, length = dict[str, str](), 0
    for name, text in details.items():
        part = text[: max(0, _LONGEST_DETAILS - length - len(name))]
        length += len(name) + len(part)
        if part:
            short_details[name] = part
    return short_details


def alias_of(message: Mapping[str, Any]) -> str:
    """Return what an incident's messages have in common."""
    return f"ringfence-incident-{message.get('incident') or 'test'}"


def _send(to: Endpoint, message: Mapping[str, Any], _delivery: int) -> int:
    base, headers = (to.url or ADDRESS).rstrip("/"), {"Authorization": f"GenieKey {to.secret}"}
    if message.get("what") != "resolved":
        return post(base, encode(body_of(message)), headers)
    closing = f"{base}/{quote(alias_of(message), safe='')}/close?identifierType=alias"
    return post(closing, encode({"source": "Ringfence", "note": str(message.get("summary", ""))}), headers)


CHANNEL: Final = Channel("opsgenie", "Opsgenie", (URL, SECRET), _send, ADDRESS)
