"""What a file describes: a worker, connectors, or MirrorMaker's flows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from ringfence.client import documents
from ringfence.connectors.common_settings import CONNECTOR_CLASS, NAME, TASKS_MAX
from ringfence.connectors.sdk import properties
from ringfence.local.errors import LocalError

_STRIMZI: Final = "kafka.strimzi.io/"
_WORKERS: Final = frozenset(
    {"bootstrap.servers", "group.id", "offset.storage.topic", "config.storage.topic", "offset.storage.file.filename"}
)
_MAX_BYTES: Final = 4 * 1024 * 1024


class What(Enum):
    """The kinds of documents."""

    WORKER = "the settings of a Kafka Connect worker"
    CONNECTOR = "a connector"
    MIRROR_MAKER = "the settings of a MirrorMaker 2 process"


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a file. name: the connector's; "" for others. settings: strings by name."""

    what: What
    name: str
    settings: Mapping[str, str]


def read(path: Path) -> list[Document]:
    """Read properties, JSON or YAML; a file may hold several connectors. Raises `LocalError` if it is none of these."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise LocalError(f"{path} is larger than {_MAX_BYTES:,} bytes: no configuration is")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise LocalError(f"{path} cannot be read ({error.strerror}): check the path") from error
    except UnicodeDecodeError as error:
        raise LocalError(f"{path} is not UTF-8: save it as UTF-8") from error
    if path.suffix == ".properties":
        return _of_properties(text, path)
    values = documents.parse(text, str(path))
    if not values:
        raise LocalError(f"{path} is empty")
    return [_of_value(value, path) for value in values]


def _of_properties(text: str, path: Path) -> list[Document]:
    try:
        settings = properties.read(text)
        if CONNECTOR_CLASS not in settings:
            return [_classify(settings, path)]
        return [Document(What.CONNECTOR, each.get(NAME, ""), each) for each in properties.read_several(text)]
    except properties.MalformedLine as error:
        raise LocalError(f"{path} {error}") from error


def _of_value(value: object, path: Path) -> Document:
    """Return the document of a JSON or YAML value: settings, `name` and `config`, or a resource of Strimzi."""
    if not isinstance(value, dict):
        raise LocalError(f"{path} must hold a map of settings, or name and config")
    if str(value.get("apiVersion", "")).startswith(_STRIMZI):
        return _of_strimzi(value, path)
    config = value.get("config")
    if isinstance(config, dict):
        name = value.get(NAME) or config.get(NAME) or ""
        return _classify({**_strings(config, path), **({NAME: str(name)} if name else {})}, path)
    return _classify(_strings(value, path), path)


def _of_strimzi(value: Mapping[str, object], path: Path) -> Document:
    """Return what a `KafkaConnector` or `KafkaConnect` of Strimzi says in Kafka Connect's own settings."""
    metadata, spec = value.get("metadata"), value.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    config = spec.get("config")
    settings = _strings(config if isinstance(config, dict) else {}, path)
    if value.get("kind") == "KafkaConnector":
        name = str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
        more = {NAME: name, CONNECTOR_CLASS: spec.get("class"), TASKS_MAX: spec.get("tasksMax")}
        return Document(What.CONNECTOR, name, {**settings, **{key: str(each) for key, each in more.items() if each}})
    servers = spec.get("bootstrapServers")
    return Document(What.WORKER, "", {**settings, **({"bootstrap.servers": str(servers)} if servers else {})})


def _classify(settings: Mapping[str, str], path: Path) -> Document:
    if CONNECTOR_CLASS in settings:
        return Document(What.CONNECTOR, settings.get(NAME, ""), settings)
    if "clusters" in settings and any(name.endswith(".bootstrap.servers") for name in settings):
        return Document(What.MIRROR_MAKER, "", settings)
    if settings.keys() & _WORKERS:
        return Document(What.WORKER, "", settings)
    raise LocalError(
        f"{path} is neither a worker's file nor a connector's configuration: a connector needs connector.class, a "
        "worker bootstrap.servers"
    )


def _strings(values: Mapping[object, object], path: Path) -> dict[str, str]:
    settings = {}
    for name, value in values.items():
        if isinstance(value, bool):
            settings[str(name)] = "true" if value else "false"
        elif isinstance(value, str):
            settings[str(name)] = value
        else:
            kind = "null" if value is None else f"a {type(value).__name__}"
            raise LocalError(f"{path}: the value of {json.dumps(name)} is {kind}: write a string")
    return settings
