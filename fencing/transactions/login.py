"""Logs in to a broker with SASL, the client's side: PLAIN, SCRAM (RFC 5802), OAUTHBEARER (RFC 7628)."""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Generator
from functools import lru_cache
from typing import Final

from ringfence.connectors.sdk.kafka_settings.oauth_tokens import TokenSource
from ringfence.fencing.errors import Fatal

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_LEAST_ITERATIONS: Final = 4096
_MOST_ITERATIONS: Final = 10_000_000
_LOGINS: Final = 8

Exchange = Generator[bytes, bytes, None]
"""Yields what to send, takes the broker's answers, and ends when the broker has shown that it knows the password."""


def login(mechanism: str, user: str, password: str, tokens: TokenSource | None = None) -> Exchange:
    """tokens: for OAUTHBEARER. Raises `Fatal` for a mechanism that is not supported here, or a broker that does not
    know the password, and `NoToken`.
    """
    if tokens is not None:
        return _bearer(tokens)
    if mechanism == "PLAIN":
        return _plain(user, password)
    if mechanism in HASHES:
        return _scram(HASHES[mechanism], user, password, secrets.token_urlsafe(24))
    raise Fatal(f"The login mechanism {mechanism} is not supported here: use PLAIN, OAUTHBEARER, {' or '.join(HASHES)}")


def _plain(user: str, password: str) -> Exchange:
    yield f"\0{user}\0{password}".encode()


def _bearer(tokens: TokenSource) -> Exchange:
    fields = [f"auth=Bearer {tokens.token().value}", *(f"{name}={value}" for name, value in tokens.extensions.items())]
    refusal = yield b"n,,\1" + b"".join(field.encode() + b"\1" for field in fields) + b"\1"
    if refusal:
        yield b"\1"  # the broker answers with its error
        raise Fatal("The broker has refused the token")


def _scram(hash_name: str, user: str, password: str, nonce: str) -> Exchange:
    try:
        yield from _exchange(hash_name, user, password, nonce)
    except ValueError as error:  # neither UTF-8 nor Base64
        raise Fatal("The broker's answer to the login is none of SCRAM's") from error


def _exchange(hash_name: str, user: str, password: str, nonce: str) -> Exchange:
    name = user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={name},r={nonce}"
    challenge = (yield f"n,,{bare}".encode()).decode()
    fields = _fields(challenge)
    iterations = int(fields["i"]) if fields.get("i", "").isdecimal() else 0
    if not fields.get("r", "").startswith(nonce) or not _LEAST_ITERATIONS <= iterations <= _MOST_ITERATIONS:
        raise Fatal("The broker's answer to the login is none of SCRAM's")
    salted = _salt_password(hash_name, password.encode(), b64decode(fields.get("s", "")), iterations)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    end = f"c=biws,r={fields['r']}"
    message = f"{bare},{challenge},{end}".encode()
    signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), message, hash_name)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    answer = _fields((yield f"{end},p={b64encode(proof).decode()}".encode()).decode())
    server_key = hmac.digest(salted, b"Server Key", hash_name)
    expected = b64encode(hmac.digest(server_key, message, hash_name)).decode()
    if not hmac.compare_digest(answer.get("v", ""), expected):
        raise Fatal("The broker does not know the password that it was to prove: it may be an impostor")


@lru_cache(_LOGINS)
def _salt_password(hash_name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Many tasks of a process log in with the same password, and this takes milliseconds, as it should."""
    return hashlib.pbkdf2_hmac(hash_name, password, salt, iterations)


def _fields(message: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.split(",") if "=" in part)
