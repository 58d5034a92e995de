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
TOO_LATE: Final = Answer(503, "The request is not committed yet. Send it again.", AGAIN_SECONDS)
