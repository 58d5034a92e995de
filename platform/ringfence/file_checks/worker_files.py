"""Checks the settings of a worker, as `ringfence worker` would read them."""

from collections.abc import Iterator, Mapping
from typing import Final

from ringfence.connectors.source_config import source_config_def
from ringfence.fencing.draft_names import find_final_names, with_final_names
from ringfence.file_checks.finding import Finding, Kind, Report, explain_unknown, without_secrets
from ringfence.file_checks.worker_settings import IGNORED, IGNORED_PREFIXES, KNOWN, KNOWN_PREFIXES
from ringfence.worker_config import WorkerConfig

_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")


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
