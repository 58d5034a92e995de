"""Which connector a configuration means, and in which of the installed versions."""

from collections.abc import Mapping

from ringfence.connectors.common_settings import CONNECTOR_CLASS, PLUGIN_VERSION
from ringfence.connectors.java.connector import JavaSourceConnector
from ringfence.connectors.plugins import PluginInfo, PluginRegistry, UnknownConnector
from ringfence.engine.plugins.errors import BadRequest, UnknownPlugin


def is_java(plugin: PluginInfo) -> bool:
    """Whether it is Java's, with Java's transforms and converters."""
    return issubclass(plugin.cls, JavaSourceConnector)


def find(registry: PluginRegistry, name: str) -> PluginInfo:
    try:
        return registry.find(name)
    except UnknownConnector as error:
        raise UnknownPlugin(str(error)) from error


def find_for(registry: PluginRegistry, config: Mapping[str, str | None]) -> PluginInfo:
    """The connector that a configuration names, of Java plugins in the version that it asks for."""
    newest = find_newest(registry, config)
    return find_version(registry, config) if is_java(newest) else newest


def find_version(registry: PluginRegistry, config: Mapping[str, str | None]) -> PluginInfo:
    """The same, of any plugin. Raises `BadRequest` where the version is not installed."""
    newest, wanted = find_newest(registry, config), config.get(PLUGIN_VERSION)
    try:
        found = registry.choose(newest, wanted)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    if found is None:
        installed = ", ".join(each.version for each in registry.versions(newest))
        raise BadRequest(f"Version {wanted} of {_class_of(config)} is not installed; installed is {installed}")
    return found


def find_problem(registry: PluginRegistry, config: Mapping[str, str | None]) -> str | None:
    """Why the version that it asks for cannot be had; None where it can."""
    try:
        find_version(registry, config)
    except BadRequest as error:
        return error.message
    return None


def find_nearest(registry: PluginRegistry, config: Mapping[str, str | None]) -> PluginInfo:
    """The same; the newest version where the one that it asks for is not installed."""
    try:
        return find_for(registry, config)
    except BadRequest:
        return find_newest(registry, config)


def find_newest(registry: PluginRegistry, config: Mapping[str, str | None]) -> PluginInfo:
    """The same, whatever version it asks for."""
    name = _class_of(config)
    if not name:
        settings = ", ".join(sorted(config))  # names only: nobody knows yet which values are secret
        raise BadRequest(f"Connector config {{{settings}}} contains no connector type")
    return find(registry, name)


def _class_of(config: Mapping[str, str | None]) -> str:
    return (config.get(CONNECTOR_CLASS) or "").strip()
