"""Encryption at rest: AES-256-GCM with keys that only web and the workers' main processes have.

RINGFENCE_ENCRYPTION_KEY_FILE  a file with one key per line; the first encrypts, all decrypt
RINGFENCE_ENCRYPTION_KEYS      the same, separated by commas, if there is no file

A key is 32 random bytes in URL-safe base 64 (`ringfence keys new`). An encrypted text is `rf1:<key id>:<base 64 of
nonce and ciphertext>`; the id is the beginning of the key's SHA-256, so keys need no names. A string without that
prefix is clear text, as in rows of earlier releases. Each purpose has its own subkey.
"""

import base64
import binascii
import hashlib
import os
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_FILE: Final = "RINGFENCE_ENCRYPTION_KEY_FILE"
KEYS: Final = "RINGFENCE_ENCRYPTION_KEYS"
REMEDY: Final = f"set {KEY_FILE} or {KEYS} for web and workers alike (`ringfence keys new` creates a key)"
_PREFIX: Final = "rf1:"
_BYTES: Final = 32
_NONCE: Final = 12


class NoKey(Exception):
    """There is no key, or not the required one. The message is for users, and contains at most the ids of keys."""


class Purpose(StrEnum):
    """The purpose of a subkey."""

    DATABASE = "database"
    MESSAGES = "messages"
    STAMPS = "stamps"
    CONFIG_TOPIC = "config topic"


@dataclass(frozen=True, slots=True)
class Key:
    """One key with its subkeys."""

    id: str
    ciphers: Mapping[Purpose, AESGCM]

    @classmethod
    def of(cls, text: str) -> "Key":
        """Parse a key. Raises `NoKey` if it is invalid, without the text in the message."""
        try:
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != _BYTES:
            raise NoKey(f"A key must be {_BYTES} bytes in URL-safe base 64: create one with `ringfence keys new`")
        return cls(_id(raw), {purpose: AESGCM(_subkey(raw, purpose)) for purpose in Purpose})


def new_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(_BYTES)).decode().rstrip("=")


def _id(raw: bytes) -> str:
    return hashlib.sha256(b"ringfence key id" + raw).hexdigest()[:8]


def _subkey(raw: bytes, purpose: Purpose) -> bytes:
    return HKDF(SHA256(), _BYTES, salt=None, info=f"ringfence {purpose}".encode()).derive(raw)


def key_id(text: str) -> str:
    """Return the id of the key that encrypted the text; "" for clear text."""
    return text.split(":", 2)[1] if text.startswith(_PREFIX) else ""


class Keyring:
    """The keys of this process. Thread-safe. A changed key file is read again."""

    def __init__(self, keys: Sequence[str] = (), file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._keys = [Key.of(key) for key in keys]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Keyring":
        """Raise `NoKey` for invalid keys. A missing file is reported on first use."""
        file = environment.get(KEY_FILE, "").strip()
        if file:
            return cls(file=Path(file))
        return cls([key.strip() for key in environment.get(KEYS, "").split(",") if key.strip()])

    @property
    def keys(self) -> list[Key]:
        """Return the keys, the newest first. Raises `NoKey` if there are none."""
        if self._file is not None:
            self._read(self._file)
        if not self._keys:
            raise NoKey(f"This process has no encryption key: {REMEDY}")
        return self._keys

    def _read(self, file: Path) -> None:
        try:
            info = file.stat()
            stamp = (info.st_mtime_ns, info.st_size, info.st_ino)
            with self._lock:
                if stamp == self._stamp:
                    return
                lines = [line.strip() for line in file.read_text().splitlines()]
                self._keys = [Key.of(line) for line in lines if line and not line.startswith("#")]
                self._stamp = stamp
        except (OSError, UnicodeDecodeError) as error:
            if self._keys:
                return  # the keys that were read before stay in use
            raise NoKey(f"The encryption key file {file} cannot be read ({type(error).__name__}): {REMEDY}") from error

    def encrypt(self, purpose: Purpose, clear: bytes, about: str = "") -> str:
        """Encrypt with the first key. about: the context, which must be the same for decryption."""
        key, nonce = self.keys[0], secrets.token_bytes(_NONCE)
        sealed = nonce + key.ciphers[purpose].encrypt(nonce, clear, about.encode("utf-8", "surrogatepass"))
        return f"{_PREFIX}{key.id}:{base64.b64encode(sealed).decode()}"

    def decrypt(self, purpose: Purpose, text: str, about: str = "") -> bytes:
        """Decrypt. Raises `NoKey` if this process lacks the key, and ValueError if none of our keys encrypted it in
        this context.
        """
        parts = text.split(":", 2)
        if len(parts) != 3 or not text.startswith(_PREFIX):
            raise ValueError("This is not encrypted")
        key = next((key for key in self.keys if key.id == parts[1]), None)
        if key is None:
            ids = ", ".join(each.id for each in self.keys)
            raise NoKey(
                f"This was encrypted under key {parts[1]}, and this process has only {ids}: add the older key behind "
                f"the newer one ({REMEDY})"
            )
        try:
            sealed = base64.b64decode(parts[2], validate=True)
            return key.ciphers[purpose].decrypt(
                sealed[:_NONCE], sealed[_NONCE:], about.encode("utf-8", "surrogatepass")
            )
        except (InvalidTag, binascii.Error, ValueError) as error:
            raise ValueError(f"This was not encrypted here, or belongs elsewhere (key {parts[1]})") from error


@cache
def keyring() -> Keyring:
    """Return the keyring of this process, from its environment."""
    return Keyring.from_environment(os.environ)


def require_key() -> None:
    """Read the keys while they are in the environment. Raises `NoKey` if there are none."""
    _ = keyring().keys


def encrypt_text(clear: str, about: str) -> str:
    """Encrypt the value of a database column. about: table and row."""
    return keyring().encrypt(Purpose.DATABASE, clear.encode("utf-8", "surrogatepass"), about)


def decrypt_text(text: str, about: str) -> str:
    """Decrypt a text; return one that was never encrypted unchanged. Also raises `NoKey` if the text was
    tampered with.
    """
    if not text.startswith(_PREFIX):
        return text
    try:
        return keyring().decrypt(Purpose.DATABASE, text, about).decode("utf-8", "surrogatepass")
    except ValueError as error:
        raise NoKey(f"A stored value of {about} cannot be decrypted: {error}") from error


class KeyringSigner:
    """Signs and checks the stamps of the config topic (`fencing.topics.leader_stamps`), with their own subkey."""

    def sign(self, data: str) -> str:
        """Return an authentication tag over the data. Raises `NoKey`."""
        return keyring().encrypt(Purpose.STAMPS, b"", data)

    def is_valid(self, data: str, signature: str) -> bool:
        """Return whether the signature is valid; False also for an unknown key."""
        try:
            return keyring().decrypt(Purpose.STAMPS, signature, data) == b""
        except (NoKey, ValueError):
            return False


class ConfigVault:
    """Encrypts and decrypts configurations of the config topic (`fencing.topics.config_encryption`)."""

    def __init__(self, *, encrypts: bool = False) -> None:
        """encrypts: whether written configurations are encrypted. Reading decrypts in any case."""
        self._encrypts = encrypts

    @property
    def key(self) -> str:
        """The id of the current key. Raises `NoKey`."""
        return keyring().keys[0].id if self._encrypts else ""

    def key_of(self, ciphertext: str) -> str:
        return key_id(ciphertext)

    def encrypt(self, clear: str, about: str) -> str:
        """Encrypt. Raises `NoKey`."""
        return keyring().encrypt(Purpose.CONFIG_TOPIC, clear.encode("utf-8", "surrogatepass"), about)

    def decrypt(self, ciphertext: str, about: str) -> str:
        """Decrypt. Raises ValueError."""
        try:
            return keyring().decrypt(Purpose.CONFIG_TOPIC, ciphertext, about).decode("utf-8", "surrogatepass")
        except NoKey as error:
            raise ValueError(str(error)) from error
