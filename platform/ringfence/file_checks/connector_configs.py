"""Checks a connector's configuration by its definition: neither its source nor a cluster is asked."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from ringfence.connectors.api import ConfigDef, SourceConnector
from ringfence.connectors.api.config_types import HIDDEN
from ringfence.connectors.common_settings import (
    CONNECTOR_CLASS,
    EXACTLY_ONCE_SUPPORT,
    NAME,
    of_a_part,
    source_config_def,
)
from ringfence.connectors.java.discovery import find_plugins, select_versions
from ringfence.connectors.known_plugins import find_counterpart, find_remedy
from ringfence.connectors.plugins import PluginInfo, PluginRegistry, UnknownConnector
from ringfence.connectors.sdk.delivery import TRANSACTION_BOUNDARY, with_boundary
from ringfence.connectors.sdk.features import features_of
from ringfence.connectors.sdk.foreign_names import DEBEZIUM, ForeignNames
from ringfence.connectors.sdk.secret_names import hiding
from ringfence.engine.plugins.secret_removal import Redactor
from ringfence.engine.plugins.validation import boundary_problems, exactly_once_problems
from ringfence.engine.preflight import client_overrides
from ringfence.file_checks.worker_settings import KNOWN as WORKER_SETTINGS
from ringfence.worker_config import WorkerConfig

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
        *_without_effect(config, known_names, foreign, plugin),
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


def _without_effect(
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
        elif name in WORKER_SETTINGS:
            yield _workers_setting(name)
        else:
            text = explain_unknown(name, [*known_names])
            yield Finding(Kind.UNKNOWN, name, text, fatal=plugin.class_name.startswith(_OURS))


def _of_the_worker(config: Mapping[str, str], known_names: Set[str]) -> Iterator[Finding]:
    for name in config:
        if name in WORKER_SETTINGS and name not in known_names and not of_a_part(name):
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
