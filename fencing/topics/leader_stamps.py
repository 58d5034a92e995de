"""Who wrote a record of the config topic: a header that only a leader of this cluster can make. Pure.

Kafka Connect and earlier versions only read keys and values, so the topic stays readable for them. A stamp holds a
message authentication code over topic, key, value, the writer, and the offset that the writer expected. By that offset,
a copy elsewhere in the topic is recognised.

Readers do not refuse a record without a stamp. All of them would have to decide alike, even tasks, which hold no key,
and compaction would still remove the record before a refused one. So the leader reports it, and only Kafka's ACLs keep
others out. Records before the first valid stamp are not judged: they are from an earlier version, from Kafka Connect,
or signed with a key that was removed.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ringfence.fencing.kafka.consumer import LogRecord

HEADER: Final = "ringfence.stamp"
_SLACK: Final = 10_000
"""How far after the offset that its writer expected a record may be: others may have written, or aborted, in
between.
"""


class StampSigner(Protocol):
    """Signs with the platform's keys."""

    def sign(self, data: str) -> str: ...

    def is_valid(self, data: str, signature: str) -> bool: ...


Headers = list[tuple[str, bytes]]


class Stamper:
    """Creates the stamps of a leader's records."""

    def __init__(self, signer: StampSigner, writer: str) -> None:
        self._signer = signer
        self._writer = writer

    def headers(self, topic: str, key: bytes, value: bytes | None, at: int) -> Headers:
        """Return the headers of a record that is expected at this offset."""
        signature = self._signer.sign(_digest(topic, key, value, self._writer, at))
        stamp = {"by": self._writer, "at": at, "mac": signature}
        return [(HEADER, json.dumps(stamp, separators=(",", ":")).encode())]


@dataclass(frozen=True, slots=True)
class Foreign:
    """A record that no leader of this cluster has written there. why: the reason, as a message."""

    offset: int
    key: str
    why: str


class StampWatch:
    """Checks the topic's records in order, each once."""

    def __init__(self, topic: str, signer: StampSigner) -> None:
        self._topic = topic
        self._signer = signer
        self._first: int | None = None

    def look(self, records: Iterable[LogRecord]) -> list[Foreign]:
        """Return the records that somebody else has written."""
        foreign_records = []
        for record in records:
            why = self._judge(record)
            if not why:
                self._first = record.offset if self._first is None else self._first
            elif self._first is not None:
                key = (record.key or b"").decode("utf-8", "replace")[:200]
                foreign_records.append(Foreign(record.offset, key, why))
        return foreign_records

    def _judge(self, record: LogRecord) -> str:
        header = next((value for name, value in record.headers if name == HEADER), None)
        if header is None:
            return "it has no stamp"
        try:
            stamp = json.loads(header)
            by, at, mac = str(stamp["by"]), int(stamp["at"]), str(stamp["mac"])
        except (ValueError, KeyError, TypeError):
            return "its stamp cannot be read"
        if not self._signer.is_valid(_digest(self._topic, record.key or b"", record.value, by, at), mac):
            return "its stamp is not one of this cluster's keys"
        if not at <= record.offset <= at + _SLACK:
            return f"it is a copy of what {by} wrote at offset {at}"
        return ""


def _digest(topic: str, key: bytes, value: bytes | None, writer: str, at: int) -> str:
    parts: Sequence[bytes] = (topic.encode(), key, b"0" if value is None else b"1" + value, writer.encode(), b"%d" % at)
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()
