"""Encrypts configurations in the config topic with the platform's keys (`fencing.topics.config_value`). Pure.

The leader and the workers have the keys. Tasks need only generations and placements, so they read without keys and see
the settings in plain text. The session key is encrypted as well; only leaders use it, and make another each hour. The
leader rewrites each configuration that does not match its encryption settings: those in plain text after encryption is
switched on, encrypted ones after it is switched off, and those under an older key.
"""

import json
import logging
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final, Protocol

from ringfence.fencing.errors import CannotDecrypt, Unreadable
from ringfence.fencing.ids import parse_task
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_record import ConfigRecord
from ringfence.fencing.topics.config_records import (
    ConnectorRecord,
    SessionKeyRecord,
    TaskCountRecord,
    TaskRecord,
    connector_of,
    decode,
)
from ringfence.fencing.topics.config_value import is_clear

log = logging.getLogger(__name__)

AT_ONCE: Final = 200
"""The maximum number of records in one of the leader's transactions."""

_HOLDERS: Final = (b"connector-", b"task-", b"tasks-count-")


class Vault(Protocol):
    """Encrypts and decrypts with the platform's keys, wherever they are kept.

    about: the key of the record that holds the text; a text cannot be opened under another one.
    """

    @property
    def key(self) -> str:
        """The id of the key that encrypts new configurations; "" to write them in plain text."""

    def key_of(self, ciphertext: str) -> str:
        """Return the id of the key that encrypted the text; "" for no text."""

    def encrypt(self, clear: str, about: str) -> str:
        """Encrypt a text."""

    def decrypt(self, ciphertext: str, about: str) -> str:
        """Decrypt a text. Raises ValueError, which says what is missing and what to do."""


class _NoKeys:
    """Reads and writes configurations in plain text only."""

    key = ""

    def key_of(self, ciphertext: str) -> str:
        return "unknown" if ciphertext else ""

    def encrypt(self, clear: str, about: str) -> str:
        raise ValueError("this process has no keys")

    def decrypt(self, ciphertext: str, about: str) -> str:
        raise ValueError("this process has no keys")


NO_KEYS: Final[Vault] = _NoKeys()


def encrypt(record: ConfigRecord, vault: Vault) -> ConfigRecord:
    """Return the record as it is written: with encrypted settings if the vault has a key, else unchanged."""
    if isinstance(record, SessionKeyRecord) and vault.key:
        return replace(record, key="", ciphertext=vault.encrypt(record.key, record.to_key()))
    settings = _settings_of(record)
    if not vault.key or settings is None:
        return record
    secrets = {name: value for name, value in settings.items() if not is_clear(name)}
    clear = {name: value for name, value in settings.items() if is_clear(name)}
    if isinstance(record, TaskCountRecord) and not secrets:
        return record
    ciphertext = vault.encrypt(json.dumps(secrets, ensure_ascii=False, separators=(",", ":")), record.to_key())
    if isinstance(record, TaskCountRecord):
        return replace(record, target=clear, ciphertext=ciphertext)
    assert isinstance(record, ConnectorRecord | TaskRecord)
    return replace(record, config=clear, ciphertext=ciphertext)


def decrypt(record: ConfigRecord, vault: Vault) -> ConfigRecord:
    """The inverse of `encrypt`. Raises `CannotDecrypt`.

    A task count record that cannot be decrypted is returned unchanged: a round must still know what it has to fence. So
    is a session key: tasks have no use for it, and a leader makes another.
    """
    if isinstance(record, SessionKeyRecord) and record.ciphertext:
        with suppress(ValueError):
            return replace(record, key=vault.decrypt(record.ciphertext, record.to_key()), ciphertext="")
        return record
    if not isinstance(record, ConnectorRecord | TaskRecord | TaskCountRecord) or not record.ciphertext:
        return record
    settings = _settings_of(record) or {}
    try:
        secrets: dict[str, str] = json.loads(vault.decrypt(record.ciphertext, record.to_key()))
    except ValueError as error:
        trouble = f"key {record.to_key()!r} holds settings that cannot be decrypted here: {error}"
        if isinstance(record, TaskCountRecord):
            log.warning("%s", trouble)
            return record
        raise CannotDecrypt(f"{trouble}. Then start this worker again") from error
    if isinstance(record, TaskCountRecord):
        return replace(record, target={**settings, **secrets}, ciphertext="")
    return replace(record, config={**settings, **secrets}, ciphertext="")


def _settings_of(record: ConfigRecord) -> Mapping[str, str] | None:
    """Return the settings that may hold secrets; None if the record has none."""
    if isinstance(record, TaskCountRecord):
        return record.target
    return record.config if isinstance(record, ConnectorRecord | TaskRecord) else None


class EncryptionWatch:
    """Tracks which encryption key each configuration in the topic uses, and finds those to rewrite. Thread-safe."""

    def __init__(self, vault: Vault = NO_KEYS) -> None:
        self._vault = vault
        self._under: dict[bytes, str] = {}
        self._by_key: dict[str, dict[bytes, None]] = {}
        """The same by the id of the key, so that nobody needs to look at thousands that need nothing."""
        self._lock = threading.Lock()

    def look(self, records: Iterable[LogRecord]) -> None:
        """Take in the topic's next records. Call it with all records, in order."""
        for record in records:
            if record.key is None or not record.key.startswith(_HOLDERS):
                continue
            under = self._look_at(record)
            with self._lock:
                before = self._under.pop(record.key, None)
                if before is not None:
                    del self._by_key[before][record.key]
                if under is not None:
                    self._under[record.key] = under
                    self._by_key.setdefault(under, {})[record.key] = None

    def _look_at(self, record: LogRecord) -> str | None:
        """Return the id of the encryption key, "" for plain text; None if the record has nothing to encrypt."""
        try:
            config_record = decode(record.key, record.value)
        except Unreadable:
            return None  # `config_log.fold` reports it
        settings = _settings_of(config_record)
        if settings is None:
            return None
        assert isinstance(config_record, ConnectorRecord | TaskRecord | TaskCountRecord)
        if (
            isinstance(config_record, TaskCountRecord)
            and not config_record.ciphertext
            and all(is_clear(name) for name in settings)
        ):
            return None
        return self._vault.key_of(config_record.ciphertext)

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of configurations by the id of their encryption key; "" for those in plain text."""
        with self._lock:
            return Counter({under: len(keys) for under, keys in self._by_key.items() if keys})

    def renewals(self, state: ClusterState) -> list[ConfigRecord]:
        """Return the records that the leader should rewrite next, at most AT_ONCE.

        A connector whose configuration cannot be decrypted, because an older key is missing, is left out.
        """
        key_id = self._vault.key
        with self._lock:
            outdated = (key for under, keys in self._by_key.items() if under != key_id for key in keys)
            due = (record for key in outdated if (record := _again(key, state)) is not None)
            return list(islice(due, AT_ONCE))


def _again(key: bytes, state: ClusterState) -> ConfigRecord | None:
    """Return the record to write again under this key: with the same meaning, or a tombstone for a task of no
    generation. None if there is nothing to write, or if it cannot be read.
    """
    name = connector_of(key)
    connector = None if name is None else state.connector(name)
    if connector is None or connector.unreadable is not None:
        return None
    kind, _, rest = key.decode(errors="replace").partition("-")
    if kind == "connector":
        config = connector.config
        return None if config is None else ConnectorRecord(connector.name, config, of=connector.config_offset)
    if kind == "tasks":
        count = connector.count
        if count is None or count.partial:
            return None
        return TaskCountRecord(connector.name, count.tasks, count.generation, count.target, count.elsewhere)
    task = parse_task(rest)
    if task is None:
        return None
    task_config = connector.pending.get(task.task) or connector.tasks.get(task.task)
    return (
        TaskRecord(task, None) if task_config is None else TaskRecord(task, task_config.config, of=task_config.offset)
    )
