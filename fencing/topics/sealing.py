"""Configurations in the config topic under the platform's keys (`fencing.topics.config_value`). Pure.

Whoever acts on configurations reads with the keys; whoever only has to know generations and placements, as tasks do,
reads without, and sees what is clear. The leader writes every configuration again that is not as its settings ask for:
clear ones once encryption is switched on, sealed ones once it is switched off, and those under an older key.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Final, Protocol

from ringfence.fencing.errors import CannotDecrypt, Unreadable
from ringfence.fencing.ids import parse_task
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_record import ConfigRecord
from ringfence.fencing.topics.config_records import ConnectorRecord, TaskCountRecord, TaskRecord, connector_of, decode
from ringfence.fencing.topics.config_value import is_clear

log = logging.getLogger(__name__)

AT_ONCE: Final = 200
"""Records in one transaction of the leader's."""

_HOLDERS: Final = (b"connector-", b"task-", b"tasks-count-")


class Vault(Protocol):
    """The keys, wherever they are."""

    @property
    def key(self) -> str:
        """The id of the key that configurations are written under; "" for clear ones."""

    def key_of(self, sealed: str) -> str:
        """The id of the key that a text is under."""

    def seal(self, clear: str, about: str) -> str: ...

    def open(self, sealed: str, about: str) -> str:
        """Raises ValueError: what is missing, and what to do."""


class _NoKeys:
    """Reads and writes clear configurations only."""

    key = ""

    def key_of(self, sealed: str) -> str:
        return "unknown" if sealed else ""

    def seal(self, clear: str, about: str) -> str:
        raise ValueError("this process has no keys")

    def open(self, sealed: str, about: str) -> str:
        raise ValueError("this process has no keys")


NO_KEYS: Final[Vault] = _NoKeys()


def seal(record: ConfigRecord, vault: Vault) -> ConfigRecord:
    """As it is to be written: its settings are sealed where the vault has a key for them."""
    settings = _settings_of(record)
    if not vault.key or settings is None:
        return record
    hidden = {name: value for name, value in settings.items() if not is_clear(name)}
    clear = {name: value for name, value in settings.items() if is_clear(name)}
    if isinstance(record, TaskCountRecord) and not hidden:
        return record
    sealed = vault.seal(json.dumps(hidden, separators=(",", ":")), record.to_key())
    if isinstance(record, TaskCountRecord):
        return replace(record, target=clear, sealed=sealed)
    assert isinstance(record, ConnectorRecord | TaskRecord)
    return replace(record, config=clear, sealed=sealed)


def open_sealed(record: ConfigRecord, vault: Vault) -> ConfigRecord:
    """As it was before `seal`. Raises `CannotDecrypt`.

    A task count record stays as it is then: rounds must not forget what they have to fence, and where.
    """
    if not isinstance(record, ConnectorRecord | TaskRecord | TaskCountRecord) or not record.sealed:
        return record
    settings = _settings_of(record) or {}
    try:
        hidden: dict[str, str] = json.loads(vault.open(record.sealed, record.to_key()))
    except ValueError as error:
        trouble = f"key {record.to_key()!r} holds settings that cannot be decrypted here: {error}"
        if isinstance(record, TaskCountRecord):
            log.warning("%s", trouble)
            return record
        raise CannotDecrypt(f"{trouble}. Then start this worker again") from error
    if isinstance(record, TaskCountRecord):
        return replace(record, target={**settings, **hidden}, sealed="")
    return replace(record, config={**settings, **hidden}, sealed="")


def _settings_of(record: ConfigRecord) -> Mapping[str, str] | None:
    """What may hold secrets."""
    if isinstance(record, TaskCountRecord):
        return record.target
    return record.config if isinstance(record, ConnectorRecord | TaskRecord) else None


class SealWatch:
    """Under which key the newest configuration under each key of the topic is. Sees all records in their order."""

    def __init__(self, vault: Vault = NO_KEYS) -> None:
        self._vault = vault
        self._under: dict[bytes, str] = {}

    def look(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            if record.key is None or not record.key.startswith(_HOLDERS):
                continue
            under = self._look_at(record)
            if under is None:
                self._under.pop(record.key, None)
            else:
                self._under[record.key] = under

    def _look_at(self, record: LogRecord) -> str | None:
        """The key's id, "" where it is clear; None where it holds nothing that is to be sealed."""
        try:
            decoded = decode(record.key, record.value)
        except Unreadable:
            return None  # whoever folds it says so
        settings = _settings_of(decoded)
        if settings is None:
            return None
        assert isinstance(decoded, ConnectorRecord | TaskRecord | TaskCountRecord)
        if isinstance(decoded, TaskCountRecord) and not decoded.sealed and all(is_clear(name) for name in settings):
            return None
        return self._vault.key_of(decoded.sealed)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many configurations are under each key; "" for clear ones."""
        return Counter(self._under.values())

    def renewals(self, state: ClusterState) -> list[ConfigRecord]:
        """The plan of the leader's next write: what is to be written again, at most AT_ONCE records of it.

        Nothing of a connector that cannot be read here, for want of an older key: it stays as it is.
        """
        wanted = self._vault.key
        due = (record for key, under in self._under.items() if under != wanted and (record := _again(key, state)))
        return list(islice(due, AT_ONCE))


def _again(key: bytes, state: ClusterState) -> ConfigRecord | None:
    """The record under this key, standing for the one that is there; a tombstone for a task of no generation."""
    name = connector_of(key)
    connector = None if name is None else state.connector(name)
    if connector is None or connector.unreadable is not None:
        return None
    kind, _, rest = key.decode(errors="replace").partition("-")
    if kind == "connector":
        found = connector.config
        return None if found is None else ConnectorRecord(connector.name, found, of=connector.config_offset)
    if kind == "tasks":
        count = connector.count
        if count is None or count.partial:
            return None
        return TaskCountRecord(connector.name, count.tasks, count.generation, count.target, count.elsewhere)
    task = parse_task(rest)
    if task is None:
        return None
    held = connector.pending.get(task.task) or connector.tasks.get(task.task)
    return TaskRecord(task, None) if held is None else TaskRecord(task, held.config, of=held.offset)
