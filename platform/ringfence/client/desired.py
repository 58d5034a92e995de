"""The state that files ask for: connectors, alert rules, alert destinations and grants. Reads files, asks no server.

Each document says its `kind`. Without one it is a connector, in the forms that `documents` knows. Strimzi's
KafkaConnector resources are connectors, too.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ringfence.client import documents
from ringfence.client.output import ClientError, Exit

SUFFIXES: Final = (".yaml", ".yml", ".json", ".properties")
STATES: Final = {"running": "RUNNING", "paused": "PAUSED", "stopped": "STOPPED"}
QUOTAS: Final = ("connectors", "tasks", "config_bytes")
_STRIMZI: Final = "kafka.strimzi.io/"

Json = Any


@dataclass(frozen=True, slots=True)
class Connector:
    """state: RUNNING, PAUSED or STOPPED; "" to leave it as it is."""

    name: str
    config: dict[str, str]
    state: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """What an account may do on the connectors of a pattern. quotas: None for the default."""

    account: str
    allow: tuple[str, ...]
    pattern: str
    topics: tuple[str, ...]
    quotas: dict[str, int | None]

    @property
    def key(self) -> tuple[str, frozenset[str], str]:
        return self.account, frozenset(self.allow), self.pattern


@dataclass(slots=True)
class Desired:
    """All that the files hold. rules, destinations: as the API takes them, by name. kinds: those that occur."""

    connectors: dict[str, Connector] = field(default_factory=dict)
    rules: dict[str, Json] = field(default_factory=dict)
    destinations: dict[str, Json] = field(default_factory=dict)
    grants: dict[tuple[str, frozenset[str], str], Grant] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    """What a file says and nobody follows."""


def read(path: str) -> Desired:
    """Read a file, all files below a folder, or standard input (`-`). Raises `ClientError`."""
    desired = Desired()
    for where, text in _texts(path):
        for value in documents.parse(text, where):
            if value is not None:
                _add(desired, value, where)
    if not desired.kinds:
        raise ClientError(Exit.INVALID, f"{path} holds nothing to apply ({', '.join(SUFFIXES)})")
    return desired


def _texts(path: str) -> Iterator[tuple[str, str]]:
    if path == "-":
        yield path, sys.stdin.read()
        return
    top = Path(path)
    try:
        for file in _files_below(top) if top.is_dir() else [top]:
            yield str(file), documents.read_file(file)
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(Exit.LOCAL, f"{path} cannot be read: {error}") from error


def _files_below(top: Path) -> list[Path]:
    """Return the files in order, without those in hidden folders: a repository's own, and what Kubernetes' links to
    files of a ConfigMap lead to. Raises `ClientError` for what is no file, and for a link that leads elsewhere.
    """
    files, real_top = [], top.resolve()
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(folder) / name for name in names if name.endswith(SUFFIXES)]
    for file in files:
        if not file.is_file() or not file.resolve().is_relative_to(real_top):
            raise ClientError(
                Exit.INVALID, f"{file} is no file, or a link that leads out of {top}: name the file itself"
            )
    return sorted(files)


def _add(desired: Desired, value: object, where: str) -> None:
    if not isinstance(value, dict):
        raise ClientError(Exit.INVALID, f"{where}: each document must be a map")
    if str(value.get("apiVersion", "")).startswith(_STRIMZI):
        _put(desired.connectors, *_strimzi(_Fields(value, where), desired), where)
        desired.kinds.add("Connector")
        return
    kind = str(value.get("kind") or "Connector")
    reader = _READERS.get(kind)
    if reader is None:
        raise ClientError(Exit.INVALID, f"{where}: kind {kind} is unknown, use one of {', '.join(_READERS)}")
    reader(desired, _Fields({key: item for key, item in value.items() if key not in ("kind", "apiVersion")}, where))
    desired.kinds.add(kind)


def _put(place: dict[Any, Any], key: Any, value: object, where: str) -> None:
    if key in place:
        raise ClientError(Exit.INVALID, f"{where}: {key if isinstance(key, str) else key[0]} is there twice")
    place[key] = value


class _Fields:
    """The fields of a document; each is taken once, and none may remain."""

    def __init__(self, value: Mapping[str, Any], where: str) -> None:
        self._value = dict(value)
        self.where = where

    def wrong(self, what: str) -> ClientError:
        return ClientError(Exit.INVALID, f"{self.where}: {what}")

    def text(self, name: str, default: str | None = None) -> str:
        value = self._value.pop(name, default)
        if not isinstance(value, str) or (not value and default is None):
            raise self.wrong(f"{name} must be a string" if value is not None else f"{name} is missing")
        return value

    def map(self, name: str) -> dict[str, Any]:
        value = self._value.pop(name, {})
        if not isinstance(value, dict):
            raise self.wrong(f"{name} must be a map")
        return value

    def settings(self, name: str) -> dict[str, str]:
        settings = self.map(name)
        for key, value in settings.items():
            if not isinstance(value, str | bool):
                raise self.wrong(f"the value of {key} must be a string, a number or a boolean")
        return {key: value if isinstance(value, str) else str(value).lower() for key, value in settings.items()}

    def texts(self, name: str, default: list[str]) -> list[str]:
        value = self._value.pop(name, default)
        parts = value.split() if isinstance(value, str) else value
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise self.wrong(f"{name} must be a list of strings")
        return parts

    def flag(self, name: str, default: bool) -> bool:
        value = self._value.pop(name, default)
        words = {"true": True, "false": False}
        if isinstance(value, str) and value.lower() in words:
            return words[value.lower()]
        if not isinstance(value, bool):
            raise self.wrong(f"{name} must be true or false")
        return value

    def number(self, name: str, default: int | None) -> int | None:
        value = self._value.pop(name, None)
        if value is None:
            return default
        if not isinstance(value, str) or not value.isascii() or not value.isdigit():
            raise self.wrong(f"{name} must be an integer")
        return int(value)

    def has(self, name: str) -> bool:
        return name in self._value

    def rest(self) -> dict[str, Any]:
        """All that has not been taken."""
        return self._value

    def end(self) -> None:
        if self._value:
            raise self.wrong(f"{', '.join(sorted(self._value))} is unknown here")


def _connector(desired: Desired, fields: _Fields) -> None:
    state = fields.text("state", "") if fields.has("config") else ""
    if state and state.lower() not in STATES:
        raise fields.wrong(f"state {state} is unknown, use one of {', '.join(STATES)}")
    document = documents.read_value(fields.rest(), fields.where)
    _put(
        desired.connectors, document.name, Connector(document.name, document.config, STATES.get(state.lower(), "")),
        fields.where,
    )  # fmt: skip


def _strimzi(fields: _Fields, desired: Desired) -> tuple[str, Connector]:
    """Read a KafkaConnector. Its `status`, and what only the operator does, are left out."""
    if (kind := fields.text("kind", "")) != "KafkaConnector":
        raise fields.wrong(f"kind {kind} is of Strimzi, and only KafkaConnector can be applied")
    metadata, spec = _Fields(fields.map("metadata"), fields.where), _Fields(fields.map("spec"), fields.where)
    name, config = metadata.text("name"), spec.settings("config")
    config |= {"name": name, "connector.class": spec.text("class")}
    for key, setting in (("tasksMax", "tasks.max"), ("version", "connector.plugin.version")):
        if spec.has(key):
            config[setting] = spec.text(key)
    restart = _Fields(spec.map("autoRestart"), fields.where)
    if restart.has("enabled"):
        config["auto.restart.enabled"] = str(restart.flag("enabled", False)).lower()
    if restart.has("maxRestarts"):
        config["auto.restart.max.attempts"] = str(restart.number("maxRestarts", 0))
    paused = spec.flag("pause", False)
    state = spec.text("state", "paused" if paused else "running").lower()
    if state not in STATES:
        raise fields.wrong(f"state {state} is unknown, use one of {', '.join(STATES)}")
    for operator_only in ("listOffsets", "alterOffsets"):
        if spec.map(operator_only):
            desired.notes.append(f"{name}: {operator_only} is not followed, use `ringfence offsets`")
    restart.end()
    spec.end()
    return name, Connector(name, config, STATES[state])


def _rule(desired: Desired, fields: _Fields) -> None:
    name = fields.text("name")
    rule = {
        "name": name,
        "kind": fields.text("type"),
        "pattern": fields.text("pattern", "*"),
        "seconds": fields.number("seconds", 60),
        "enabled": fields.flag("enabled", True),
        "destinations": sorted(fields.texts("destinations", [])),
    }
    fields.end()
    _put(desired.rules, name, rule, fields.where)


def _destination(desired: Desired, fields: _Fields) -> None:
    name = fields.text("name")
    destination = {
        "name": name,
        "kind": fields.text("type"),
        "url": fields.text("url", ""),
        "secret": fields.text("secret", ""),
        "recipients": fields.texts("recipients", []),
        "enabled": fields.flag("enabled", True),
    }
    fields.end()
    _put(desired.destinations, name, destination, fields.where)


def _grant(desired: Desired, fields: _Fields) -> None:
    grant = Grant(
        fields.text("account"),
        tuple(fields.texts("allow", [])),
        fields.text("pattern", "*"),
        tuple(fields.texts("topics", ["*"])),
        {name: fields.number(name, None) for name in QUOTAS},
    )
    fields.end()
    if not grant.allow:
        raise fields.wrong(f"the grant of {grant.account} allows nothing")
    _put(desired.grants, grant.key, grant, fields.where)


_READERS: Final[Mapping[str, Callable[[Desired, _Fields], None]]] = {
    "Connector": _connector,
    "AlertDestination": _destination,
    "AlertRule": _rule,
    "Grant": _grant,
}
