"""Slack's incoming webhooks, with blocks. Compatible receivers (Mattermost, Rocket.Chat) show `text`.

Format: https://api.slack.com/reference/block-kit/blocks and https://api.slack.com/messaging/webhooks
"""

from collections.abc import Mapping
from typing import Any, Final

from ringfence.alerts.messages import facts_of, text_of
from ringfence.alerts.senders.channel import URL, Channel, Endpoint
from ringfence.alerts.senders.posting import encode, post

_LONGEST_HEADER: Final = 150
_LONGEST_TEXT: Final = 3000
_LONGEST_FIELD: Final = 1900
_MOST_FIELDS: Final = 10


def body_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message as Slack takes it."""
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


def _send(to: Endpoint, message: Mapping[str, Any], _delivery: int) -> int:
    return post(to.url, encode(body_of(message)))


CHANNEL: Final = Channel("slack", "Slack or compatible", (URL,), _send)
