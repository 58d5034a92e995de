"""Microsoft Teams, by a workflow "when a Teams webhook request is received": an Adaptive Card.

Format: https://learn.microsoft.com/power-automate/teams/send-a-message-in-teams and https://adaptivecards.io (1.4)
"""

from collections.abc import Mapping
from typing import Any, Final

from ringfence.alerts.messages import facts_of, text_of
from ringfence.alerts.senders.channel import URL, Channel, Endpoint
from ringfence.alerts.senders.posting import encode, post

_COLOURS: Final = {"firing": "Attention", "resolved": "Good"}


def body_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message as a workflow of Teams takes it."""
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


def _send(to: Endpoint, message: Mapping[str, Any], _delivery: int) -> int:
    return post(to.url, encode(body_of(message)))


CHANNEL: Final = Channel("teams", "Microsoft Teams", (URL,), _send)
