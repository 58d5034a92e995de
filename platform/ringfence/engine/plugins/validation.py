"""Validates a connector configuration, inside a plugin process: finds the connector that it names, in the right
installed version, and answers with Kafka Connect's `validate` body.

For forms and pages it says what the connector guarantees with that configuration.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from ringfence.connectors.api import (
    Choices,
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    Guarantee,
    SourceConnector,
)
from ringfence.connectors.api.config_types import CHOICE_NOTES, EXAMINES, GUARANTEE, HIDDEN, SELECTS
from ringfence.connectors.common_settings import (
    CONNECTOR_CLASS,
    EXACTLY_ONCE_SUPPORT,
    PLUGIN_VERSION,
    SNAPSHOT_TRANSACTION,
    source_config_def,
)
from ringfence.connectors.config_providers import ResolvedConfig
from ringfence.connectors.java.connector import JavaSourceConnector
from ringfence.connectors.known_plugins import find_known
from ringfence.connectors.plugins import PluginInfo, PluginRegistry, UnknownConnector
from ringfence.connectors.sdk.delivery import (
    TRANSACTION_BOUNDARY,
    default_boundary,
    transaction_boundary,
    with_boundary,
)
from ringfence.engine.plugins.errors import BadRequest, UnknownPlugin
from ringfence.engine.plugins.secret_removal import Redactor


def is_java(plugin: PluginInfo) -> bool:
    """Return whether it is a Java plugin, with Java's transforms and converters."""
    return issubclass(plugin.cls, JavaSourceConnector)


def find(registry: PluginRegistry, name: str) -> PluginInfo:
    try:
        return registry.find(name)
    except UnknownConnector as error:
        raise UnknownPlugin(str(error)) from error


def find_for(registry: PluginRegistry, config: Mapping[str, str | None]) -> PluginInfo:
    """Return the connector that a configuration names; a Java plugin in the requested version."""
    newest = find_newest(registry, config)
    return find_version(registry, config) if is_java(newest) else newest


def find_version(registry: PluginRegistry, config: Mapping[str, str | None]) -> PluginInfo:
    """Return the connector in the requested version. Raises `BadRequest` if it is not installed."""
    newest, requirement = find_newest(registry, config), config.get(PLUGIN_VERSION)
    try:
        plugin = registry.choose(newest, requirement)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    if plugin is None:
        versions = ", ".join(each.version for each in registry.versions(newest))
        raise BadRequest(f"Version {requirement} of {_class_of(config)} is not installed; installed is {versions}")
    return plugin


def find_problem(registry: PluginRegistry, config: Mapping[str, str | None]) -> str | None:
    """Return why the requested version is not available; None if it is."""
    try:
        find_version(registry, config)
    except BadRequest as error:
        return error.message
    return None


def find_nearest(registry: PluginRegistry, config: Mapping[str, str | None]) -> PluginInfo:
    """Return the connector in the requested version, or the newest if that is not installed."""
    try:
        return find_for(registry, config)
    except BadRequest:
        return find_newest(registry, config)


def find_newest(registry: PluginRegistry, config: Mapping[str, str | None]) -> PluginInfo:
    """Return the connector in its newest version, whatever version is requested."""
    name = _class_of(config)
    if not name:
        settings = ", ".join(sorted(config))  # only names: it is not known yet which values are secret
        raise BadRequest(f"Connector config {{{settings}}} contains no connector type")
    return find(registry, name)


def _class_of(config: Mapping[str, str | None]) -> str:
    return (config.get(CONNECTOR_CLASS) or "").strip()


_AT_BEST: Final = (Guarantee.EXACTLY_ONCE, Guarantee.EXACTLY_ONCE_WITHIN_WINDOW)
_SWITCHED_OFF: Final = "The workers run without exactly.once.source.support=enabled. Set it on every worker."


def describe_guarantee(
    connector: SourceConnector, config: Mapping[str, str], *, exactly_once: bool, sound: bool = True
) -> dict[str, str]:
    """Return `{"guarantee", "why"}`: a `Guarantee`, and what it depends on.

    exactly_once: whether the worker runs with exactly-once support. sound: whether the connector's own settings are
    valid; otherwise the answer is the best that it can promise.
    """
    if not exactly_once:
        return _answer(Guarantee.AT_LEAST_ONCE, _SWITCHED_OFF)
    best = connector.catalog.guarantee if connector.catalog is not None else Guarantee.UNKNOWN
    if not sound:
        return _answer(best, "" if best is Guarantee.UNKNOWN else "At best: it depends on the settings.")
    try:
        answer, why = connector.exactly_once_support(config), str(connector.explain_guarantee(config))
    except Exception as error:  # noqa: BLE001 - plugin code
        log.info("The plugin could not tell what it guarantees: %s", type(error).__name__)
        return _answer(Guarantee.UNKNOWN, "")
    match answer:
        case ExactlyOnceSupport.SUPPORTED:
            return _answer(best if best in _AT_BEST else Guarantee.EXACTLY_ONCE, why)
        case ExactlyOnceSupport.UNSUPPORTED:
            return _answer(Guarantee.AT_LEAST_ONCE, why)
        case _:
            return _answer(Guarantee.UNKNOWN, why)


def _answer(guarantee: Guarantee, why: str) -> dict[str, str]:
    return {"guarantee": guarantee.value, "why": why}


log = logging.getLogger(__name__)

_MOST_CHOICES = 1000
_CANNOT_TELL = (
    "The connector does not implement the API required for preflight validation of exactly-once source support. If "
    'its documentation promises exactly-once, use "requested", which checks nothing.'
)


def redactor(plugin: PluginInfo, config: Mapping[str, str | None]) -> Redactor:
    framework = source_config_def(_given_values(config), java=is_java(plugin))
    return Redactor(config, [plugin.cls.config_def(), framework])


def validate(
    registry: PluginRegistry, plugin_name: str, config: Mapping[str, str | None], *, exactly_once: bool
) -> dict[str, object]:
    """Return the body of Kafka Connect's `PUT /connector-plugins/{plugin_name}/config/validate`; its status is always
    200.

    exactly_once: whether this cluster runs with `exactly.once.source.support=enabled`. Raises `UnknownPlugin`,
    `BadRequest` and what the plugin raises, which the caller reports.
    """
    plugin = find_nearest(registry, config)
    if find(registry, plugin_name).class_name != plugin.class_name:
        raise BadRequest(
            f"Included connector type {config.get(CONNECTOR_CLASS)} does not match request type {plugin_name}"
        )
    connector = plugin.cls()
    settings, newest = _given_values(config), find_newest(registry, config)
    boundary = default_boundary(connector, settings)
    settings = with_boundary(connector, settings)
    framework = _with_defaults(source_config_def(settings, java=is_java(plugin)), registry.versions(newest), boundary)
    own, own_settings = _judge_own(connector, config, framework)
    keys = {**framework.keys, **own.keys}
    values = {value.name: value for value in [*framework.validate(config), *own_settings.values]}
    _add(values, keys, own_settings.more)
    own_is_sound = not any(values[name].errors for name in own.keys)
    if not isinstance(connector, JavaSourceConnector):
        _add(values, keys, _ask_plugin(connector, settings, report=own_is_sound))
    _add(values, keys, {name: [_null(name)] for name, value in config.items() if value is None and name not in keys})
    if (problem := find_problem(registry, config)) is not None:
        values[PLUGIN_VERSION].errors.append(problem)
    if own_is_sound:
        _check_exactly_once(connector, settings, values, exactly_once=exactly_once)

    selects = list_selects(plugin)
    is_reachable = not any(values[name].errors for name in own.keys if name not in selects)
    notes = _offer(connector, settings, values) if is_reachable else {}
    guarantee = describe_guarantee(connector, settings, exactly_once=exactly_once, sound=own_is_sound)
    redact = Redactor(config, [own, framework])
    for value in values.values():
        value.errors[:] = [redact(error) for error in value.errors]
    return {
        "name": str(config[CONNECTOR_CLASS]),
        "error_count": sum(len(value.errors) for value in values.values()),
        "groups": list(dict.fromkeys([*framework.groups(), *own.groups()])),
        "configs": [
            {"definition": keys[name].info(), "value": value.info(keys[name].type)} for name, value in values.items()
        ],
        GUARANTEE: {**guarantee, "why": redact(guarantee["why"])},
        SELECTS: selects,
        EXAMINES: isinstance(connector, JavaSourceConnector) or type(connector).examine is not SourceConnector.examine,
        **({CHOICE_NOTES: notes} if notes else {}),
    }


def list_selects(plugin: PluginInfo) -> list[str]:
    """Return the settings that choose what is read, as far as the plugin's catalog entry names them."""
    known_plugin = find_known(plugin.class_name)
    entry = plugin.cls.catalog or (known_plugin.entry if known_plugin is not None else None)
    return [] if entry is None else list(entry.selects)


@dataclass(frozen=True)
class _OwnSettings:
    """The connector's own settings. more: its errors for settings of the framework."""

    values: Sequence[ConfigValue]
    more: Mapping[str, Sequence[str]]


def _judge_own(
    connector: SourceConnector, config: Mapping[str, str | None], framework: ConfigDef
) -> tuple[ConfigDef, _OwnSettings]:
    """Validate by Java if the connector is Java's, else by its definition."""
    if not isinstance(connector, JavaSourceConnector):
        own = ConfigDef(key for key in connector.config_def().keys.values() if key.name not in framework.keys)
        return own, _OwnSettings(own.validate(config), {})
    pairs = {key.name: (key, value) for key, value in connector.validate_by_java(_given_values(config))}
    mine = [pair for name, pair in pairs.items() if name not in framework.keys]
    more = {name: value.errors for name, (_, value) in pairs.items() if name in framework.keys}
    return ConfigDef(key for key, _ in mine), _OwnSettings([value for _, value in mine], more)


def common_keys(versions: Sequence[PluginInfo]) -> ConfigDef:
    """Return the settings that a connector has in addition to its own. versions: the installed ones, newest first."""
    return _with_defaults(source_config_def({}), versions, default_boundary(versions[0].cls(), {}))


def _with_defaults(definition: ConfigDef, versions: Sequence[PluginInfo], boundary: str) -> ConfigDef:
    """Return the definition with what depends on the connector: the installed versions as choices and the newest as
    the default, and the default of `transaction.boundary`.
    """
    choices = [each.version for each in versions]
    changes: dict[str, dict[str, Any]] = {
        PLUGIN_VERSION: {"default": choices[0], "recommender": Choices(*choices)},
        TRANSACTION_BOUNDARY: {"default": boundary},
    }
    return ConfigDef(replace(key, **changes.get(key.name, {})) for key in definition.keys.values())


def _given_values(config: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in config.items() if value is not None}


def _null(name: str) -> str:
    return f"Null value can not be supplied as the configuration value for {name}."


def _ask_plugin(connector: SourceConnector, config: Mapping[str, str], *, report: bool) -> Mapping[str, Iterable[str]]:
    """Call `SourceConnector.validate`. If settings are wrong by definition, its exceptions are ignored."""
    try:
        return connector.validate(config)
    except Exception:
        if report:
            raise
        return {}


def _offer(
    connector: SourceConnector, config: Mapping[str, str], values: Mapping[str, ConfigValue]
) -> dict[str, dict[str, str]]:
    """Add `SourceConnector.list_choices` as recommended values; return their descriptions. Errors only omit the
    choices.
    """
    try:
        lists = connector.list_choices(config)
    except Exception as error:  # noqa: BLE001 - plugin code; the form works without choices
        log.info("The plugin could not list its choices: %s", type(error).__name__)
        return {}
    choices = {name: {each.value: each.description for each in lists[name][:_MOST_CHOICES]} for name in lists}
    for name, descriptions in choices.items():
        if name in values:
            values[name].recommended_values = [*descriptions]
    return choices


def _add(values: dict[str, ConfigValue], keys: dict[str, ConfigKey], errors: Mapping[str, Iterable[str]]) -> None:
    for name, texts in errors.items():
        if name not in values:
            keys[name] = ConfigKey(name, ConfigType.STRING, default=None)
            values[name] = ConfigValue(name)
        messages = values[name].errors
        messages.extend(text for text in map(str, texts) if text not in messages)


def _check_exactly_once(
    connector: SourceConnector, config: Mapping[str, str], values: dict[str, ConfigValue], *, exactly_once: bool
) -> None:
    """KIP-618, "REST API validation": the connector is asked only if the configuration requires it."""
    support, boundary = values[EXACTLY_ONCE_SUPPORT], values[TRANSACTION_BOUNDARY]
    if str(support.value).lower() == "required":
        if not exactly_once:
            support.errors.append("This worker does not have exactly-once source support enabled.")
        support.errors.extend(exactly_once_problems(connector, config))
    if str(boundary.value).lower() == "connector":
        boundary.errors.extend(boundary_problems(connector, config))
    if (snapshot := values.get(SNAPSHOT_TRANSACTION)) is not None and snapshot.value is True:
        if not exactly_once:
            snapshot.errors.append("This worker does not have exactly-once source support enabled.")
        if str(boundary.value).lower() == "connector":
            snapshot.errors.append("With transaction.boundary=connector, the connector defines the transactions.")


def exactly_once_problems(connector: SourceConnector, config: Mapping[str, str]) -> list[str]:
    """Return why the connector cannot guarantee exactly once with this configuration; empty if it does."""
    try:
        answer = connector.exactly_once_support(config)
    except Exception as error:  # noqa: BLE001 - plugin code: what it raises is the answer
        return [f"An unexpected error occurred while the connector was asked: {type(error).__name__}: {error}"]
    match answer:
        case ExactlyOnceSupport.SUPPORTED:
            return []
        case ExactlyOnceSupport.UNSUPPORTED:
            return ["The connector does not support exactly-once delivery guarantees with the provided configuration."]
        case _:
            return [_CANNOT_TELL]


def boundary_problems(connector: SourceConnector, config: Mapping[str, str]) -> list[str]:
    """Return why the connector cannot define transactions with this configuration; empty if it can."""
    try:
        answer = connector.can_define_transaction_boundaries(config)
    except Exception as error:  # noqa: BLE001 - plugin code: what it raises is the answer
        return [f"An unexpected error occurred while the connector was asked: {type(error).__name__}: {error}"]
    if answer is ConnectorTransactionBoundaries.SUPPORTED:
        return []
    return [
        "The connector does not support connector-defined transaction boundaries with its existing "
        "configuration. Choose another transaction.boundary."
    ]


def support_of(plugin: PluginInfo, config: Mapping[str, str]) -> tuple[str, bool, str]:
    """Return what the connector declares about exactly once (supported, unsupported, unknown), whether it can define
    transactions, and the effective `transaction.boundary`.

    If the plugin raises, it declares nothing.
    """
    connector = plugin.cls()
    config = with_boundary(connector, config)
    try:
        answer = connector.exactly_once_support(config)
    except Exception:  # noqa: BLE001 - plugin code
        answer = None
    words = {ExactlyOnceSupport.SUPPORTED: "supported", ExactlyOnceSupport.UNSUPPORTED: "unsupported"}
    word = "unknown" if answer is None else words.get(answer, "unknown")
    return word, not boundary_problems(connector, config), transaction_boundary(config)


def as_given(answer: dict[str, object], resolution: ResolvedConfig, errors: Mapping[str, str]) -> dict[str, object]:
    """Return the answer of `validate` with references instead of their values, and errors for unresolved settings."""
    configs = cast("list[dict[str, dict[str, object]]]", answer["configs"])
    other_errors = dict(errors)
    for entry in configs:
        value = entry["value"]
        name = str(value["name"])
        own = [resolution.hide(str(error)) for error in cast("list[object]", value["errors"])]
        choices = cast("list[object]", value["recommended_values"])
        value["recommended_values"] = [None if one is None else resolution.hide(str(one)) for one in choices]
        raw, resolved_value = resolution.raw.get(name), resolution.config.get(name)
        if raw != resolved_value and raw is not None:
            # Errors of its own setting never contain the value, however short.
            own = [error.replace(resolved_value, raw) if resolved_value else error for error in own]
            value["value"] = raw if value["value"] != HIDDEN else HIDDEN
        value["errors"] = [*([other_errors.pop(name)] if name in other_errors else []), *own]
    for name, error in other_errors.items():
        key = ConfigKey(name, ConfigType.STRING, default=None)
        config_value = ConfigValue(name, resolution.raw[name], errors=[error])
        configs.append({"definition": key.info(), "value": config_value.info(key.type)})
    count = sum(len(cast("list[object]", entry["value"]["errors"])) for entry in configs)
    notes = cast("dict[str, dict[str, str]]", answer.get(CHOICE_NOTES, {}))
    texts = {
        name: {resolution.hide(each): resolution.hide(note) for each, note in notes[name].items()} for name in notes
    }
    guarantee = cast("dict[str, str]", answer[GUARANTEE])
    guarantee = {**guarantee, "why": resolution.hide(guarantee["why"])}
    return {**answer, "error_count": count, GUARANTEE: guarantee, **({CHOICE_NOTES: texts} if texts else {})}
