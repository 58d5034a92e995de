"""Finds the connector that a configuration names, in the right installed version."""

from collections.abc import Mapping

from ringfence.connectors.common_settings import CONNECTOR_CLASS, PLUGIN_VERSION
from ringfence.connectors.java.connector import JavaSourceConnector
from ringfence.connectors.plugins import PluginInfo, PluginRegistry, UnknownConnector
from ringfence.engine.plugins.errors import BadRequest, UnknownPlugin


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
