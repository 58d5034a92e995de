"""What a producer is told of itself and of the way to its brokers, under the names that the translation of Java's
settings gives (`connectors.kafka_settings.java_names`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.sdk.kafka_settings import oauth_tokens
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.errors import Fatal
from ringfence.fencing.kafka.connection import BATCH_BYTES, LINGER_MS, QUEUE_BYTES, tls_context
from ringfence.fencing.transactions.broker_connection import Access, LookUp
from ringfence.fencing.transactions.record_batches import HEAD_BYTES
from ringfence.fencing.transactions.steps import PASSING, UNREACHED, Limits

_REQUEST_BYTES: Final = 1_000_000
_REQUEST_MS: Final = 30_000
_BLOCK_MS: Final = 60_000
_METADATA_MS: Final = 300_000
_SETUP_MS: Final = 5_000
_SOFTWARE: Final = "1"


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Times in seconds. linger_s: how long a batch that is not full waits for more records; block_s: how long a call
    waits for metadata, and for room; retries: of one batch; passing, unreached: pauses before a request is repeated.
    """

    batch_bytes: int
    request_bytes: int
    buffer_bytes: int
    delivery_s: float
    request_s: float
    block_s: float
    linger_s: float
    metadata_s: float
    in_flight: int
    retries: int | None
    compression: str
    level: int | None
    passing: Backoff
    unreached: Backoff

    @classmethod
    def of(cls, settings: Mapping[str, object], timeout_ms: int) -> "ProducerSettings":
        """timeout_ms: of transactions; nothing in one may take longer. Raises ValueError for what is no number."""

        def number(name: str, default: int) -> int:
            return int(str(settings.get(name, default)))

        level = number("compression.level", -1)
        request_bytes = number("message.max.bytes", _REQUEST_BYTES)
        return cls(
            batch_bytes=min(number("batch.size", BATCH_BYTES), request_bytes),
            request_bytes=request_bytes,
            buffer_bytes=number("queue.buffering.max.kbytes", QUEUE_BYTES // 1024) * 1024,
            delivery_s=min(number("message.timeout.ms", timeout_ms), timeout_ms) / 1000,
            request_s=min(number("socket.timeout.ms", _REQUEST_MS), timeout_ms) / 1000,
            block_s=number("max.block.ms", _BLOCK_MS) / 1000,
            linger_s=number("linger.ms", LINGER_MS) / 1000,
            metadata_s=number("metadata.max.age.ms", _METADATA_MS) / 1000,
            in_flight=number("max.in.flight.requests.per.connection", 5),
            retries=number("retries", 0) or None,
            compression=str(settings.get("compression.type", "none")),
            level=None if level < 0 else level,
            passing=_pauses(settings, "retry", PASSING),
            unreached=_pauses(settings, "reconnect", UNREACHED),
        )

    @property
    def limits(self) -> Limits:
        """What of this the state machine needs."""
        return Limits(
            self.delivery_s,
            int(self.request_s * 1000),
            self.request_bytes,
            self.in_flight,
            self.retries,
            self.metadata_s,
            self.passing,
            self.unreached,
        )


def batch_bytes(settings: Mapping[str, object]) -> int:
    """Return the largest size in bytes of the batches of a producer with these settings."""
    return ProducerSettings.of(settings, _REQUEST_MS).batch_bytes


def request_bytes(settings: Mapping[str, object]) -> int:
    """Return the largest size in bytes of a whole batch that a producer with these settings sends."""
    return ProducerSettings.of(settings, _REQUEST_MS).request_bytes


def encoded_batch_bytes(settings: Mapping[str, object]) -> int:
    """Return the largest size in bytes of the record batches that another process encodes for a producer with these
    settings, without their heads.
    """
    return max(1, batch_bytes(settings) - HEAD_BYTES)


def _pauses(settings: Mapping[str, object], kind: str, default: Backoff) -> Backoff:
    """Read `<kind>.backoff.ms` and `<kind>.backoff.max.ms`. If only one is set, the other one follows it."""
    first, longest = settings.get(f"{kind}.backoff.ms"), settings.get(f"{kind}.backoff.max.ms")
    if first is None and longest is None:
        return default
    least = default.first if first is None else int(str(first)) / 1000
    most = default.longest if longest is None else int(str(longest)) / 1000
    return Backoff(min(least, most) if first is None else least, max(least, most) if longest is None else most)


def access_of(client_id: str, settings: Mapping[str, object], look_up: LookUp) -> Access:
    """Return how brokers are reached with these settings. Raises OSError or ValueError for unusable ones."""
    texts = {name: str(value) for name, value in settings.items()}
    protocol = texts.get("security.protocol", "PLAINTEXT").upper()
    mechanism = (texts.get("sasl.mechanism") or texts.get("sasl.mechanisms") or "PLAIN").upper()
    has_login = protocol.startswith("SASL")
    return Access(
        client_id,
        _SOFTWARE,
        look_up,
        tls_context(texts) if protocol.endswith("SSL") else None,
        mechanism if has_login else "",
        texts.get("sasl.username", "") if has_login else "",
        texts.get("sasl.password", "") if has_login else "",
        oauth_tokens.source_of(texts) if oauth_tokens.uses_tokens(texts) else None,
        int(texts.get("socket.connection.setup.timeout.ms", _SETUP_MS)) / 1000,
        int(texts.get("connections.max.idle.ms", 0)) / 1000,
        int(texts.get("socket.send.buffer.bytes", 0)),
        int(texts.get("socket.receive.buffer.bytes", 0)),
    )


def addresses_of(bootstrap: str) -> list[tuple[str, int]]:
    """Parse `bootstrap.servers`. Raises `Fatal`."""
    addresses = []
    for each in filter(None, map(str.strip, bootstrap.split(","))):
        host, _, port = each.rpartition(":")
        host = host.rpartition("://")[2].strip("[]")
        if not host or not port.isdecimal():
            raise Fatal(f"{each!r} is no host:port, in bootstrap.servers")
        addresses.append((host, int(port)))
    if not addresses:
        raise Fatal("bootstrap.servers names no broker")
    return addresses
