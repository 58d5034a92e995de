"""Checks files that people bring, without a cluster, as `ringfence check` prints it.

Each one's documents are checked, and reports are in the light of the workers that would run the connectors. A
connector's configuration is checked by its definition: neither its source nor a cluster is asked. Kafka Connect's
worker settings that have no effect here are named, with the reason.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum, StrEnum
from pathlib import Path
from typing import Final

from ringfence.client import documents
from ringfence.connectors.api import ConfigDef, SourceConnector
from ringfence.connectors.api.config_types import HIDDEN
from ringfence.connectors.common_settings import (
    CONNECTOR_CLASS,
    EXACTLY_ONCE_SUPPORT,
    NAME,
    TASKS_MAX,
    of_a_part,
    source_config_def,
)
from ringfence.connectors.config_providers import PREFIX as PROVIDERS
from ringfence.connectors.java.discovery import find_plugins, select_versions
from ringfence.connectors.known_plugins import find_counterpart, find_remedy
from ringfence.connectors.plugins import PluginInfo, PluginRegistry, UnknownConnector
from ringfence.connectors.sdk import properties, worker_limits
from ringfence.connectors.sdk.delivery import TRANSACTION_BOUNDARY, with_boundary
from ringfence.connectors.sdk.features import features_of
from ringfence.connectors.sdk.foreign_names import DEBEZIUM, ForeignNames
from ringfence.connectors.sdk.kafka_settings.java_names import Role
from ringfence.connectors.sdk.secret_names import hiding
from ringfence.engine.plugins.secret_removal import Redactor
from ringfence.engine.plugins.validation import boundary_problems, exactly_once_problems
from ringfence.engine.preflight import client_overrides
from ringfence.fencing.draft_names import find_final_names, with_final_names
from ringfence.fencing.modes import MODE_KEY, Mode
from ringfence.local.errors import LocalError
from ringfence.worker_config import WorkerConfig

_REST: Final = "the web process serves the REST API. Set RINGFENCE_HTTP, or ringfence up --http."
_MEMBER: Final = "it tunes the membership in Kafka Connect's own group protocol. Remove it."
_CLIENT: Final = "it concerns the worker's own client. For the clients of tasks, set producer.{0} and consumer.{0}."
_METRICS: Final = "metrics are at /metrics, for Prometheus. Remove it."
_ORIGIN: Final = "pages of other origins cannot call the REST API. Remove it."
_CLIENT_NAMES: Final = (
    "client.dns.lookup", "client.id", "client.rack", "connections.max.idle.ms", "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "receive.buffer.bytes",
    "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retry.backoff.max.ms",
    "retry.backoff.ms", "send.buffer.bytes", "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
)  # fmt: skip

IGNORED: Final = {
    **{name: _CLIENT.format(name) for name in _CLIENT_NAMES},
    **dict.fromkeys(
        ("connect.protocol", "heartbeat.interval.ms", "rebalance.timeout.ms", "worker.sync.timeout.ms",
         "worker.unsync.backoff.ms"),
        _MEMBER,
    ),
    **dict.fromkeys(
        ("listeners", "admin.listeners", "rest.host.name", "rest.port", "rest.advertised.host.name",
         "rest.advertised.port", "rest.advertised.listener", "response.http.headers.config"),
        _REST,
    ),
    **dict.fromkeys(("access.control.allow.origin", "access.control.allow.methods"), _ORIGIN),
    **dict.fromkeys(
        ("metric.reporters", "metrics.num.samples", "metrics.sample.window.ms", "metrics.recording.level",
         "auto.include.jmx.reporter", "enable.metrics.push"),
        _METRICS,
    ),
    "rest.extension.classes": "the REST API has accounts and permissions of its own (docs/access.md). Remove it.",
    "plugin.discovery": "Java plugins are found by their service manifests: connect-plugin-path.sh sync-manifests "
    "writes those that are missing. Remove it.",
    "offset.storage.file.filename": "source offsets are in the topic offset.storage.topic. To continue where a "
    "standalone worker stopped, set them with ringfence offsets set.",
    "task.assignment.timeout.ms": _MEMBER,
}  # fmt: skip
"""By name: why a setting has no effect, and what to do."""

IGNORED_PREFIXES: Final = {
    "internal.key.converter": "Kafka Connect has had no such setting since 3.0: internal records are JSON. Remove it.",
    "internal.value.converter": "Kafka Connect has had no such setting since 3.0: internal records are JSON. Remove "
    "it.",
    "listeners.https.": _REST,
    "admin.listeners.": _REST,
    "metrics.context.": _METRICS,
    "metrics.jmx.": _METRICS,
}

KNOWN: Final = frozenset(
    {
        "auto.restart.enabled", "auto.restart.max.attempts", "bootstrap.servers", "call.memory.limit",
        "config.storage.encryption.enable", "config.storage.topic", "connector.client.config.override.policy",
        "connector.offsets.max.bytes", "connector.transaction.timeout.max.ms", "connectors.memory.limit",
        "egress.allow", "egress.deny", "events.storage.topic", "exactly.once.source.support", "file.roots",
        "file.write.roots", "group.id", "header.converter", "inter.worker.key.generation.algorithm",
        "inter.worker.key.size", "inter.worker.key.ttl.ms", "inter.worker.signature.algorithm",
        "inter.worker.verification.algorithms", "java.options", "java.shared.options", "key.converter", "listen.host",
        "max.poll.interval.ms", "offset.flush.interval.ms", "offset.flush.timeout.ms", "offset.storage.topic",
        "offsets.view.max.bytes", "plugin.install.path", "plugin.path", "scheduled.rebalance.max.delay.ms",
        "security.protocol", "session.timeout.ms", "status.storage.topic", "task.isolation", "task.memory.limit",
        "task.shutdown.graceful.timeout.ms", "task.slots", "tasks.max.limit", "topic.creation.enable",
        "topic.tracking.allow.reset", "topic.tracking.enable", "transaction.timeout.ms", "value.converter", PROVIDERS,
    }
)  # fmt: skip
"""Settings that have an effect."""

KNOWN_PREFIXES: Final = (
    *(f"{role}." for role in Role),
    "sasl.", "ssl.", "https.ca.", "spark.", f"{PROVIDERS}.", "key.converter.", "value.converter.", "header.converter.",
    "config.storage.", "offset.storage.", "status.storage.", "events.storage.",
)  # fmt: skip
"""Families of settings that have an effect, such as settings of topics and clients. What is wrong in them is found
elsewhere.
"""


_LOGIN: Final = re.compile(r"://[^/\s@]*@")


class Kind(StrEnum):
    """The kinds of findings."""

    UNKNOWN = "unknown"
    RENAMED = "renamed"
    IGNORED = "ignored"
    IMPOSSIBLE = "not possible"
    MISSING = "missing"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. setting: "" for the file as a whole; text: what is wrong and the remedy; fatal: whether it must be
    changed, so that it starts, or does what its author means.
    """

    kind: Kind
    setting: str
    text: str
    fatal: bool = True

    def line(self) -> str:
        """Return it as one line: the level, the kind, the setting and the remedy."""
        level = "change" if self.fatal else "note"
        where = f"{self.setting}: " if self.setting and self.setting not in self.text else ""
        return _printable(f"{level}: {self.kind}: {where}{self.text}")


@dataclass(frozen=True, slots=True)
class Report:
    """What a file, or a connector in it, is, and what to change."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return not any(finding.fatal for finding in self.findings)

    def lines(self) -> list[str]:
        """Return it for people: what it is, and one line for each finding, the important ones first."""
        count = sum(finding.fatal for finding in self.findings)
        verdict = "nothing to change" if not count else f"{count} to change"
        ordered = sorted(self.findings, key=lambda finding: not finding.fatal)
        return [_printable(f"{self.subject}: {verdict}"), *(f"  {finding.line()}" for finding in ordered)]


def without_secrets(
    findings: Iterable[Finding], config: Mapping[str, str], hide: Callable[[str], str] = str
) -> tuple[Finding, ...]:
    """Return the findings without values of settings whose names say that they are secret, and without logins in
    addresses. hide: removes further secrets.
    """
    by_name = hiding(config)
    return tuple(
        replace(finding, text=_LOGIN.sub(f"://{HIDDEN}@", hide(by_name(finding.text)))) for finding in findings
    )


def _printable(text: str) -> str:
    """Return the text as one line, without characters that a terminal obeys."""
    return "".join(char if char.isprintable() else " " for char in text)


def explain_unknown(name: str, known_names: Sequence[str]) -> str:
    """Return the remedy for a setting that has no meaning, with the name that may be meant."""
    close = get_close_matches(name, known_names, 1, 0.85)
    return f"there is no such setting. Is {close[0]} meant?" if close else "there is no such setting. Remove it."


_OURS: Final = "connectors."
"""How the names of our own classes begin: they read no setting that they do not define."""
_MISSING: Final = "Missing required configuration"


def check_connector(config: Mapping[str, str], registry: PluginRegistry, worker: WorkerConfig) -> Report:
    """Return what is wrong with the configuration, each with the remedy.

    worker: the settings of the workers that would run it.
    """
    class_name = config.get(CONNECTOR_CLASS, "").strip()
    subject = f"the connector {config.get(NAME) or '(without a name)'} of the class {class_name or '(none)'}"
    java = select_versions(find_plugins(worker.plugin_folders), class_name)
    plugin = _find(registry, class_name)
    if plugin is not None and not any(each.class_name == class_name for each in java):
        redact = Redactor(config, [plugin.cls.config_def(), source_config_def(config)])
        return Report(subject, without_secrets(_check_ours(config, plugin, worker), config, redact))
    if java:
        about = f"{subject}, a Java plugin in version {java[0].version}"
        return Report(about, without_secrets(_check_java(config, worker), config))
    absence = _explain_absence(class_name)
    counterpart = find_counterpart(class_name)
    if counterpart:
        rest = check_connector({**config, CONNECTOR_CLASS: counterpart}, registry, worker).findings
    else:
        rest = without_secrets(_check_java(config, worker), config)
    return Report(subject, (absence, *rest))


def _find(registry: PluginRegistry, class_name: str) -> PluginInfo | None:
    try:
        return registry.find(class_name)
    except UnknownConnector:
        return None


def _explain_absence(class_name: str) -> Finding:
    remedy = find_remedy(class_name)
    kind = Kind.IMPOSSIBLE if "source connectors only" in remedy else Kind.MISSING
    unknown = "no such connector is installed. Name the worker's file with --config if its plugin.path has it."
    return Finding(kind, CONNECTOR_CLASS, remedy or unknown)


def _check_ours(config: Mapping[str, str], plugin: PluginInfo, worker: WorkerConfig) -> list[Finding]:
    connector, foreign = plugin.cls(), features_of(plugin.class_name).foreign_names
    framework = source_config_def(config)
    own = ConfigDef(key for key in plugin.cls.config_def().keys.values() if key.name not in framework.keys)
    older = [*_older_names(config, foreign, {*own.keys, *framework.keys})]
    invalid = [*_invalid(config, own, foreign), *_invalid(config, framework, foreign)]
    known_names = {*own.keys, *framework.keys, *(finding.setting for finding in older)}
    findings = [
        *invalid,
        *older,
        *_about_clients(config, worker),
        *_unread_settings(config, known_names, foreign, plugin),
    ]
    if not invalid:
        findings += _about_guarantees(connector, config)
        for name, errors in connector.check_settings(with_boundary(connector, config)).items():
            if all(finding.setting != name for finding in older):
                findings += [Finding(Kind.IMPOSSIBLE, name, error) for error in errors]
    return findings


def _check_java(config: Mapping[str, str], worker: WorkerConfig) -> list[Finding]:
    """Check what the framework knows; Java itself validates the rest when the connector is created."""
    debezium = config.get(CONNECTOR_CLASS, "").strip().startswith("io.debezium.")
    foreign = DEBEZIUM if debezium else ForeignNames()
    framework = source_config_def(config, java=True)
    return [
        *_invalid(config, framework, foreign),
        *_older_names(config, foreign, framework.keys.keys()),
        *_about_clients(config, worker),
        *_of_the_worker(config, framework.keys.keys()),
    ]


def _invalid(config: Mapping[str, str], definition: ConfigDef, foreign: ForeignNames) -> Iterator[Finding]:
    """Yield the errors of the definition, but not what is only missing under its present name."""
    renamed = {foreign.find_present_name(name).partition("=")[0] for name in config}
    for value in definition.validate(config):
        older_value = foreign.values.get((value.name, config.get(value.name, "").strip().lower()))
        for error in () if older_value or value.name in renamed - config.keys() else value.errors:
            kind = Kind.MISSING if error.startswith(_MISSING) else Kind.INVALID
            yield Finding(kind, value.name, error)


def _older_names(config: Mapping[str, str], foreign: ForeignNames, known_names: Set[str]) -> Iterator[Finding]:
    for name, value in config.items():
        present = "" if name in known_names else foreign.find_present_name(name)
        if present:
            yield Finding(Kind.RENAMED, name, f"it is called {present} now, and has no effect under the older name.")
        present_value = foreign.values.get((name, value.strip().lower()))
        if present_value:
            yield Finding(Kind.RENAMED, name, f"the value {value.strip()} is called {present_value} now.")


def _about_clients(config: Mapping[str, str], worker: WorkerConfig) -> Iterator[Finding]:
    """Yield what is wrong with the settings of the tasks' clients."""
    mine = {name: value for name, value in config.items() if ".override." in name}
    for name, errors in client_overrides.errors_of(config, worker).items():
        if name in config:
            yield from (Finding(Kind.IMPOSSIBLE, name, error) for error in errors)
    for name, text in client_overrides.warnings_of(mine, worker).items():
        if name in config:
            yield Finding(Kind.IGNORED, name, text, fatal=False)


def _unread_settings(
    config: Mapping[str, str], known_names: Set[str], foreign: ForeignNames, plugin: PluginInfo
) -> Iterator[Finding]:
    """Yield the settings that nobody reads. A plugin may read what it does not define."""
    refused = plugin.cls().check_settings(config).keys() if plugin.class_name.startswith(_OURS) else set()
    for name in config:
        if (
            name in known_names
            or name in refused
            or ".override." in name
            or name.startswith(foreign.families or ("\0",))
        ):
            continue
        why = foreign.explain_ignored(name)
        if why:
            yield Finding(Kind.IGNORED, name, why, fatal=False)
        elif name in KNOWN:
            yield _workers_setting(name)
        else:
            text = explain_unknown(name, [*known_names])
            yield Finding(Kind.UNKNOWN, name, text, fatal=plugin.class_name.startswith(_OURS))


def _of_the_worker(config: Mapping[str, str], known_names: Set[str]) -> Iterator[Finding]:
    for name in config:
        if name in KNOWN and name not in known_names and not of_a_part(name):
            yield _workers_setting(name)


def _workers_setting(name: str) -> Finding:
    return Finding(Kind.IMPOSSIBLE, name, "it is a setting of workers. Remove it here, and set it there.")


def _about_guarantees(connector: SourceConnector, config: Mapping[str, str]) -> Iterator[Finding]:
    """Yield why exactly-once support, if it is required, or the transaction boundary is not possible."""
    settings = with_boundary(connector, config)
    if config.get(EXACTLY_ONCE_SUPPORT, "").strip().lower() == "required":
        for text in exactly_once_problems(connector, settings):
            yield Finding(Kind.IMPOSSIBLE, EXACTLY_ONCE_SUPPORT, text)
    if settings.get(TRANSACTION_BOUNDARY, "").strip().lower() == "connector":
        for text in boundary_problems(connector, settings):
            yield Finding(Kind.IMPOSSIBLE, TRANSACTION_BOUNDARY, text)


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
