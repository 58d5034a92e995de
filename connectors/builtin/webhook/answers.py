"""The answers to senders of webhooks, with their statuses and the time after which to send again."""

from dataclasses import dataclass
from typing import Final

AGAIN_SECONDS: Final = 1
"""The value of Retry-After."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the sender. again: seconds after which to retry, 0: never."""

    status: int
    text: str
    again: int = 0


ACCEPTED: Final = Answer(200, "accepted")
DUPLICATE: Final = Answer(200, "duplicate")
FULL: Final = Answer(503, "Too many requests are waiting for their commit. Send the request again.", AGAIN_SECONDS)
NO_ROOM: Final = Answer(503, "The window of idempotency keys is full. Send the request again later.", 60)
STOPPED: Final = Answer(503, "The task is stopping before the request is committed. Send it again.", AGAIN_SECONDS)
REPLAYED: Final = Answer(
    409, "This body was received under another idempotency key, and the signature covers the body alone."
)
REPLAY_WAITS: Final = Answer(503, "The same body waits under another idempotency key.", AGAIN_SECONDS)
TOO_LARGE: Final = Answer(413, "The record of this request would be larger than its topic accepts.")
TOO_MANY_HEADERS: Final = Answer(431, "The headers are too large.")
UNCONVERTIBLE: Final = Answer(422, "The connector cannot make a record of this request.")
UNCONVERTIBLE_NOW: Final = Answer(503, "The connector cannot make a record of this request at the moment.", 5)
FAILED: Final = Answer(500, "The task could not read the request.")
TOO_LATE: Final = Answer(503, "The request is not committed yet. Send it again.", AGAIN_SECONDS)
