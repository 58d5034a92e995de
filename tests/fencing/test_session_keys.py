"""Session keys (KIP-507): when a new one is due, what a signature is worth, and that no key is shown."""

import base64
import hashlib
import hmac

import pytest

from ringfence.fencing.errors import Invalid
from ringfence.fencing.topics.config_records import SessionKeyRecord
from ringfence.fencing.topics.session_keys import SessionKeys, SignatureCheck

KEYS = SessionKeys.of({})
KEY = KEYS.make_key(1_000)
BODY = b'{"a":1}'


def signed(body: bytes, key: SessionKeyRecord = KEY, algorithm: str = "sha256") -> str:
    mac = hmac.new(base64.b64decode(key.key), body, getattr(hashlib, algorithm))
    return base64.b64encode(mac.digest()).decode()


def test_a_key_is_as_long_as_javas_and_never_the_same() -> None:
    assert len(base64.b64decode(KEY.key)) == 32
    assert (KEY.algorithm, KEY.created_ms) == ("HmacSHA256", 1_000)
    assert KEYS.make_key(1_000).key != KEY.key
    long = SessionKeys.of({"inter.worker.key.size": "1024"})
    assert len(base64.b64decode(long.make_key(0).key)) == 128


@pytest.mark.parametrize(
    ("now_ms", "due"), [(1_000, False), (3_600_999, False), (3_601_000, True), (-3_598_999, False), (-3_599_000, True)]
)
def test_a_new_key_is_due_after_an_hour(now_ms: int, due: bool) -> None:
    assert KEYS.due(KEY, now_ms) is due
    assert KEYS.due(None, now_ms)


def test_only_the_newest_keys_signature_of_this_very_body_is_valid() -> None:
    assert KEYS.verdict(KEY, BODY, signed(BODY), "HmacSHA256") is SignatureCheck.VALID
    assert KEYS.verdict(KEY, b"", signed(b""), "hmacsha256") is SignatureCheck.VALID
    assert KEYS.verdict(KEY, b"{}", signed(BODY), "HmacSHA256") is SignatureCheck.INVALID
    assert KEYS.verdict(KEYS.make_key(2_000), BODY, signed(BODY), "HmacSHA256") is SignatureCheck.INVALID
    assert KEYS.verdict(KEY, BODY, "", "HmacSHA256") is SignatureCheck.INVALID
    assert KEYS.verdict(KEY, BODY, "no base64!", "HmacSHA256") is SignatureCheck.MALFORMED
    assert KEYS.verdict(KEY, BODY, signed(BODY, algorithm="sha512"), "HmacSHA512") is SignatureCheck.UNSUPPORTED
    assert KEYS.verdict(None, BODY, signed(BODY), "HmacSHA256") is SignatureCheck.NO_KEY


def test_other_algorithms_are_taken_where_the_worker_says_so() -> None:
    keys = SessionKeys.of({"inter.worker.verification.algorithms": "HmacSHA256, HmacSHA512"})
    assert keys.verdict(KEY, BODY, signed(BODY, algorithm="sha512"), "HmacSHA512") is SignatureCheck.VALID


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("inter.worker.key.generation.algorithm", "AES"),
        ("inter.worker.signature.algorithm", "HmacSHA512"),
        ("inter.worker.verification.algorithms", "HmacMD4"),
        ("inter.worker.verification.algorithms", ""),
        ("inter.worker.key.size", "8"),
        ("inter.worker.key.ttl.ms", "0"),
        ("inter.worker.key.ttl.ms", "soon"),
    ],
)
def test_settings_that_cannot_be_meant_are_named(key: str, value: str) -> None:
    with pytest.raises(Invalid, match=r"inter\.worker"):
        SessionKeys.of({key: value})


def test_no_key_is_shown() -> None:
    assert KEY.key not in repr(KEY)
