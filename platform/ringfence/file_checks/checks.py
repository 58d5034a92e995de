"""Checks files: each one's documents, and reports in the light of the workers that would run the connectors."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from ringfence.client import documents
from ringfence.connectors.common_settings import CONNECTOR_CLASS, NAME, TASKS_MAX, source_config_def
from ringfence.connectors.plugins import PluginRegistry
from ringfence.connectors.sdk import properties, worker_limits
from ringfence.fencing.draft_names import find_final_names, with_final_names
from ringfence.fencing.modes import MODE_KEY, Mode
from ringfence.file_checks.connector_configs import (
    Finding,
    Kind,
    Report,
    check_connector,
    explain_unknown,
    without_secrets,
)
from ringfence.file_checks.worker_settings import IGNORED, IGNORED_PREFIXES, KNOWN, KNOWN_PREFIXES
from ringfence.local.errors import LocalError
from ringfence.worker_config import WorkerConfig

_UNKNOWN_WORKER: Final = {MODE_KEY: Mode.ENABLED.value}
"""Of workers of which nothing is known."""
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")


def check_files(paths: Sequence[Path], worker_file: Path | None) -> Iterator[tuple[Path, list[Report] | LocalError]]:
    """Yield the reports of each file, one for each connector in it, or why it cannot be read.

    worker_file: that of the workers; None for the first worker's file among the paths. Raises `LocalError` if
    it is not one.
    """
    documents = {path: _read(path) for path in paths}
    worker = WorkerConfig.of_settings(with_final_names(_worker_settings(documents.values(), worker_file)))
    worker_limits.declare(worker_limits.of_settings(worker.settings))
    registry = PluginRegistry.discover()
    for path, content in documents.items():
        yield path, content if isinstance(content, LocalError) else [_check(one, registry, worker) for one in content]


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


def _read(path: Path) -> list[Document] | LocalError:
    try:
        return read(path)
    except LocalError as error:
        return error


def _worker_settings(documents: Iterable[list[Document] | LocalError], worker_file: Path | None) -> Mapping[str, str]:
    files = [read(worker_file)] if worker_file is not None else [each for each in documents if isinstance(each, list)]
    workers = [document.settings for each in files for document in each if document.what is What.WORKER]
    if worker_file is not None and not workers:
        raise LocalError(f"{worker_file} is not a worker's file: name one with --config")
    return workers[0] if workers else _UNKNOWN_WORKER


def _check(document: Document, registry: PluginRegistry, worker: WorkerConfig) -> Report:
    match document.what:
        case What.WORKER:
            return check_worker(document.settings)
        case What.MIRROR_MAKER:
            return check_mirror_maker(document.settings)
        case What.CONNECTOR:
            return check_connector(document.settings, registry, worker)


def check_worker(settings: Mapping[str, str]) -> Report:
    """Return what a worker with these settings would not do, each with the remedy."""
    final = with_final_names(settings)
    findings = [
        *_list_draft_names(settings),
        *_problems(final),
        *_converters(final),
        *_without_effect(final),
        *_missing(final),
    ]
    kind = "a standalone worker" if "offset.storage.file.filename" in settings else "a worker"
    return Report(f"the settings of {kind} of Kafka Connect", without_secrets(findings, settings))


def _list_draft_names(settings: Mapping[str, str]) -> Iterator[Finding]:
    for name, (final, value) in find_final_names(settings).items():
        text = f"it is read as {final}={value}. Use that name."
        yield Finding(Kind.RENAMED, name, text, fatal=False)


def _problems(settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what keeps a worker from starting."""
    config = WorkerConfig.of_settings(settings)
    for problem in config.find_problems():
        unknown = problem.startswith("Unknown configuration ")
        names = (name for name in sorted(settings, key=len, reverse=True) if name in problem)
        yield Finding(Kind.IMPOSSIBLE if unknown else Kind.INVALID, next(names, ""), problem)
    for name, text in config.find_ignored().items():
        yield Finding(Kind.IGNORED, name, text, fatal=False)


def _converters(settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what is wrong with the converters. With `plugin.path`, an unknown class may be a Java plugin's."""
    for value in source_config_def(settings).validate(settings):
        if value.name in settings and value.name.startswith(_CONVERTERS):
            for error in value.errors:
                java = value.name in _CONVERTERS and "plugin.path" in settings
                text = f"{error}. Only Java connectors can use it, if plugin.path has it" if java else error
                yield Finding(Kind.INVALID, value.name, text, fatal=not java)


def _without_effect(settings: Mapping[str, str]) -> Iterator[Finding]:
    for name in settings:
        by_prefix = (text for prefix, text in IGNORED_PREFIXES.items() if name.startswith(prefix))
        why = IGNORED.get(name) or next(by_prefix, "")
        if why:
            yield Finding(Kind.IGNORED, name, why, fatal=False)
        elif name not in KNOWN and not name.startswith(KNOWN_PREFIXES):
            yield Finding(Kind.UNKNOWN, name, explain_unknown(name, [*KNOWN, *IGNORED]))


def _missing(settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the settings that Kafka Connect requires, and the values that apply without them."""
    defaults = WorkerConfig.of_settings({}).settings
    names = ("bootstrap.servers", "group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
    for name in names:
        if not settings.get(name, "").strip():
            yield Finding(Kind.MISSING, name, f"{defaults[name]} applies. Set it.", fatal=False)


def check_mirror_maker(settings: Mapping[str, str]) -> Report:
    """Return one line for each flow between clusters, with the connector that replaces it."""
    findings = tuple(_flows(settings))
    return Report("the settings of a MirrorMaker 2 process", without_secrets(findings, settings))


def _flows(settings: Mapping[str, str]) -> Iterator[Finding]:
    clusters = [name.strip() for name in settings.get("clusters", "").split(",") if name.strip()]
    pairs = [(source, target) for source in clusters for target in clusters if source != target]
    for source, target in pairs:
        flow = f"{source}->{target}"
        if settings.get(f"{flow}.enabled", "").strip().lower() != "true":
            continue
        topics = settings.get(f"{flow}.topics", "").strip() or ".*"
        text = (
            f"Ringfence runs no MirrorMaker process. On workers of cluster {target}, create a connector with "
            f"connector.class=KafkaSource, source.cluster.alias={source}, source.cluster.bootstrap.servers and "
            f"target.cluster.bootstrap.servers as here, and topics={topics}."
        )
        yield Finding(Kind.IMPOSSIBLE, flow, text)
    if not pairs:
        yield Finding(Kind.MISSING, "clusters", "it must name at least two clusters.")
