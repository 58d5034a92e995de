"""A record of the input, as a task gets it."""

from collections.abc import Sequence
from typing import Any

from ringfence.fencing.kafka.share_member import Answer, Message
from ringfence.fencing.offsets.ledger_keys import InputPartition


class ShareRecord:
    """See `ringfence.connectors.api.ShareRecord`. It is a plain class for speed.

    message: the locked message; None for a record that the sweep has found. answer: the acknowledgement to send after
    the commit. alone: whether it is tried in a transaction of only this record.
    """

    __slots__ = (
        "alone",
        "answer",
        "delivery_count",
        "headers",
        "key",
        "message",
        "offset",
        "partition",
        "timestamp_ms",
        "topic",
        "tp",
        "value",
    )

    def __init__(self, message: Message, tp: InputPartition, *, locked: bool) -> None:
        self.topic = str(message.topic())
        self.partition = tp.partition
        self.offset = int(message.offset() or 0)
        self.key: bytes | None = message.key()
        self.value: bytes | None = message.value()
        self.timestamp_ms = int(message.timestamp()[1])
        headers: Any = message.headers()
        self.headers: Sequence[tuple[str, bytes | None]] = headers or ()
        self.delivery_count = int(message.delivery_count() or 1) if locked else 0
        self.message = message if locked else None
        self.tp = tp
        self.answer = Answer.ACCEPT
        self.alone = False
