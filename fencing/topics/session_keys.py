"""Session keys for the cluster's internal requests (KIP-507): made by the leader, stored in the config topic, never
shown.

Kafka Connect's workers sign internal requests with them. Only readers of the config topic may know a key, so only the
leader checks signatures, and neither Redis nor the database ever holds a key. Pure.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ringfence.fencing.errors import Invalid
from ringfence.fencing.topics.config_records import SessionKeyRecord

TTL: Final = "inter.worker.key.ttl.ms"
GENERATION: Final = "inter.worker.key.generation.algorithm"
SIZE: Final = "inter.worker.key.size"
SIGNATURE: Final = "inter.worker.signature.algorithm"
VERIFICATION: Final = "inter.worker.verification.algorithms"
DEFAULTS: Final[Mapping[str, str]] = {
    TTL: "3600000",
    GENERATION: "HmacSHA256",
    SIGNATURE: "HmacSHA256",
    VERIFICATION: "HmacSHA256",
}

_HASHES: Final[Mapping[str, tuple[str, int]]] = {
    "hmacsha256": ("sha256", 256),
    "hmacsha384": ("sha384", 384),
    "hmacsha512": ("sha512", 512),
    "hmacsha224": ("sha224", 224),
    "hmacsha1": ("sha1", 512),
}
"""Java's name in lower case to ours, and the bits of a key where none are asked for, as Java has it."""
_FEWEST_BITS: Final = 40
_MOST_BITS: Final = 65_536


class SignatureCheck(Enum):
    """The result of checking a signature."""

    VALID = "valid"
    INVALID = "made with another key, or for another body"
    UNSUPPORTED = "by an algorithm that is not accepted here"
    MALFORMED = "not base64"
    NO_KEY = "no key is known yet"


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The worker's settings for session keys."""

    ttl_ms: int
    algorithm: str
    bits: int
    verification_algorithms: frozenset[str]

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "SessionKeys":
        """Read a worker's settings. Raises `Invalid`, naming an invalid one."""
        values = {**DEFAULTS, **settings}
        verification_algorithms = [name.strip() for name in values[VERIFICATION].split(",") if name.strip()]
        for key, names in (
            (GENERATION, [values[GENERATION]]),
            (SIGNATURE, [values[SIGNATURE]]),
            (VERIFICATION, verification_algorithms),
        ):
            for name in names:
                if name.lower() not in _HASHES:
                    raise Invalid(f"{key}={name}: use HmacSHA256, HmacSHA384, HmacSHA512, HmacSHA224 or HmacSHA1")
        if values[SIGNATURE].lower() not in [name.lower() for name in verification_algorithms]:
            raise Invalid(f"{VERIFICATION} must contain {SIGNATURE} ({values[SIGNATURE]})")
        bits = values.get(SIZE, "").strip() or str(_HASHES[values[GENERATION].lower()][1])
        if not bits.isdecimal() or not _FEWEST_BITS <= int(bits) <= _MOST_BITS:
            raise Invalid(f"{SIZE}: a number of bits from {_FEWEST_BITS} to {_MOST_BITS} is expected")
        ttl = values[TTL].strip()
        if not ttl.isdecimal() or not 0 < int(ttl) < 2**31:
            raise Invalid(f"{TTL}={ttl}: a number of milliseconds from 1 to {2**31 - 1} is expected")
        return cls(int(ttl), values[GENERATION], int(bits), frozenset(name.lower() for name in verification_algorithms))

    def due(self, newest: SessionKeyRecord | None, now_ms: int) -> bool:
        """Return whether the leader should make a new key. A key from a clock that runs ahead is not kept longer
        either.
        """
        return newest is None or not _usable(newest) or abs(now_ms - newest.created_ms) >= self.ttl_ms

    def make_key(self, now_ms: int) -> SessionKeyRecord:
        """Make a new key."""
        key = secrets.token_bytes((self.bits + 7) // 8)
        return SessionKeyRecord(base64.b64encode(key).decode(), self.algorithm, now_ms)

    def verdict(self, newest: SessionKeyRecord | None, body: bytes, signature: str, algorithm: str) -> SignatureCheck:
        """Check whether `signature` (base64) is the newest key's for this body. Takes the same time for each
        wrong one.
        """
        if algorithm.lower() not in self.verification_algorithms:
            return SignatureCheck.UNSUPPORTED
        if newest is None or not _usable(newest):  # anybody can sign with an empty key
            return SignatureCheck.NO_KEY
        try:
            digest = base64.b64decode(signature, validate=True)
            key = base64.b64decode(newest.key, validate=True)
        except (binascii.Error, ValueError):
            return SignatureCheck.MALFORMED
        expected = hmac.new(key, body, getattr(hashlib, _HASHES[algorithm.lower()][0])).digest()
        return SignatureCheck.VALID if hmac.compare_digest(digest, expected) else SignatureCheck.INVALID


def _usable(record: SessionKeyRecord) -> bool:
    """Return whether it holds a key at all: otherwise nobody could sign until it expires."""
    try:
        return bool(base64.b64decode(record.key, validate=True))
    except (binascii.Error, ValueError):
        return False
