"""A webhook of your own: the message as JSON, signed (docs/alerts.md)."""

import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Any, Final

from ringfence.alerts.senders.channel import SECRET, URL, Channel, Endpoint
from ringfence.alerts.senders.posting import encode, post

SIGNATURE, TIMESTAMP, DELIVERY = "X-Ringfence-Signature", "X-Ringfence-Timestamp", "X-Ringfence-Delivery"


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return `sha256=` and the HMAC of timestamp, a dot and the body. The timestamp prevents replays of
    old messages.
    """
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _send(to: Endpoint, message: Mapping[str, Any], delivery: int) -> int:
    body, now = encode(message), str(int(time.time()))
    signed = {SIGNATURE: signature(to.secret, now, body), TIMESTAMP: now} if to.secret else {}
    return post(to.url, body, {**signed, DELIVERY: str(delivery)})


CHANNEL: Final = Channel("webhook", "Webhook (JSON, signed)", (URL, SECRET), _send, makes_secret=True)
