"""Finds connectors: every entry point of the group `ringfence.connectors`, and every Java connector in `plugin.path`.

Connectors are found by any name that users may write. A full Java class name means the Java class if `plugin.path`
contains it, otherwise our counterpart; a short name means ours if there is one.
"""

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points

from ringfence.connectors.api import SourceConnector, SourceTask
from ringfence.connectors.class_names import class_name, short_names
from ringfence.connectors.java import runtime, versions
from ringfence.connectors.java.connector import java_connector_class
from ringfence.connectors.java.discovery import JavaPlugin, find_plugins
from ringfence.connectors.java.task import java_task_class
from ringfence.connectors.known_plugins import find_remedy
from ringfence.connectors.plugin_environments import (
    GROUP,
    PluginEnvironment,
    PythonPlugin,
    State,
    describe_point,
    entry_points_of,
    installed_state,
)


class UnknownConnector(LookupError):
    """No connector has this name, or several have it; the message lists the available ones."""


@dataclass(frozen=True)
class PluginInfo:
    """One connector that can run. class_name: its dotted Python class. names: all that users may write."""

    cls: type[SourceConnector]
    class_name: str
    names: frozenset[str]
    type: str = "source"
    distribution_version: str | None = None
    """For a plugin with its own environment: identifies its version without loading it."""

    @property
    def version(self) -> str:
        return self.distribution_version or self.cls.version


@dataclass
class PluginRegistry:
    """The installed connectors. Those that cannot be loaded are left out, and `broken` contains the reasons."""

    plugins: list[PluginInfo] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    installed_before: State | None = None
    """The state of installed packages when the entry points were read; None if these were given."""
    _python: list[PluginInfo] = field(default_factory=list, repr=False)
    _java: Sequence[JavaPlugin] = ()
    _older: dict[str, list[PluginInfo]] = field(default_factory=dict, repr=False)

    @classmethod
    def discover(cls, points: Iterable[EntryPoint] | None = None) -> "PluginRegistry":
        """Load every entry point of the group (or the given ones)."""
        registry = cls(installed_before=installed_state() if points is None else None)
        for point in sorted(points if points is not None else entry_points(group=GROUP)):
            registry._load(point)
        return registry

    @classmethod
    def of_environment(cls, environment: PluginEnvironment) -> "PluginRegistry":
        """Load the connectors of the environment that this process has entered, and no others."""
        registry = cls()
        for point in sorted(entry_points_of(environment)):
            registry._load(point, describe_point(point))
        return registry

    def _load(self, point: EntryPoint, description: PythonPlugin | None = None) -> None:
        """description: the description without loading it, which led to this process."""
        try:
            plugin = describe(point.load(), point.name)
        except Exception as error:  # noqa: BLE001 - foreign code is imported; recorded as the plugin's own error
            self.broken[point.name] = f"{type(error).__name__}: {error}"
            return
        if description is not None:
            plugin = replace(
                plugin,
                class_name=description.class_name,
                names=description.names,
                distribution_version=description.version,
            )
        self.plugins.append(plugin)

    def follow_plugin_path(self) -> None:
        """Load the current Java connectors of `plugin.path`; those that did not change keep their `PluginInfo`."""
        java = runtime.current()
        plugins = () if java is None else find_plugins(java.folders)
        if plugins == self._java:
            return
        if not self._java:
            self._python = list(self.plugins)
        self._java = plugins
        self._join()

    def versions(self, plugin: PluginInfo) -> list[PluginInfo]:
        """Return the plugin in all installed versions, newest first. A Python plugin has one."""
        return [plugin, *self._older.get(plugin.class_name, ())]

    def choose(self, plugin: PluginInfo, requirement: str | None) -> PluginInfo | None:
        """Return the newest version that `connector.plugin.version` accepts, or None.

        Raises ValueError if the requirement is neither a version nor a range.
        """
        return versions.choose(requirement, self.versions(plugin), lambda each: each.version)

    def find(self, name: str) -> PluginInfo:
        """Return the connector with this name, class or alias, in its newest version.

        Raises `UnknownConnector`, in Kafka Connect's words. Finds connectors that were installed in the meantime; a
        connector that was loaded before stays as it is until its process ends.
        """
        try:
            return self._find(name)
        except UnknownConnector:
            if self.installed_before is None or self.installed_before == installed_state():
                raise
        importlib.invalidate_caches()
        newer = PluginRegistry.discover()
        self.broken, self.installed_before, self._python = newer.broken, newer.installed_before, newer.plugins
        self._join()
        return self._find(name)

    def _join(self) -> None:
        newest: dict[str, JavaPlugin] = {}
        for each in self._java:
            newest.setdefault(each.class_name, each)
        self.plugins = join(self._python, [*newest.values()])
        self._older = {}
        for plugin in self.plugins:
            older = [each for each in self._java if each.class_name == plugin.class_name][1:]
            self._older[plugin.class_name] = [replace(plugin, cls=java_connector_class(each)) for each in older]

    def _find(self, name: str) -> PluginInfo:
        matches = [each for each in self.plugins if each.class_name == name] or [
            each for each in self.plugins if name in each.names
        ]
        if len(matches) == 1:
            return matches[0]
        if matches:
            classes = ", ".join(plugin.class_name for plugin in matches)
            raise UnknownConnector(
                f"More than one connector matches alias {name}; use the whole name of one of: {classes}"
            )
        if name in self.broken:
            raise UnknownConnector(f"Connector {name} is installed but cannot be loaded: {self.broken[name]}")
        remedy = find_remedy(name)
        available = ", ".join(plugin.class_name for plugin in self.plugins) or "none"
        raise UnknownConnector(
            f"Failed to find any class that implements Connector and which name matches {name}, "
            f"available connectors are: {available}{'. ' if remedy else ''}{remedy}"
        )


def describe(cls: object, entry_name: str | None = None) -> PluginInfo:
    """Describe a connector class. Raises `TypeError` for a class that is not a `SourceConnector`."""
    if not (isinstance(cls, type) and issubclass(cls, SourceConnector)):
        raise TypeError(f"{cls!r} is not a subclass of connectors.api.SourceConnector")
    names = {class_path(cls), *cls.aliases}
    if entry_name is not None:
        names.add(entry_name)
    for name in (cls.__name__, *cls.aliases):
        names |= short_names(name)
    return PluginInfo(cls, class_path(cls), frozenset(names))


def join(python: Sequence[PluginInfo], java: Sequence[JavaPlugin]) -> list[PluginInfo]:
    """Give each name one meaning: full names of Java classes mean these; all other names mean the Python connectors."""
    full = {plugin.class_name for plugin in java}
    ours = [replace(each, names=each.names - full) if each.names & full else each for each in python]
    names = {name for each in ours for name in each.names}
    return [*ours, *(_describe_java(plugin, names) for plugin in java)]


def _describe_java(plugin: JavaPlugin, names: set[str]) -> PluginInfo:
    short = short_names(plugin.class_name) - names
    return PluginInfo(java_connector_class(plugin), plugin.class_name, frozenset({plugin.class_name, *short}))


def class_path(cls: type) -> str:
    """Return the dotted path for `load_task_class`; a task configuration contains it as `task.class`."""
    return class_name(cls)


def load_task_class(path: str) -> type[SourceTask]:
    """Return the task class of a dotted path. Other paths mean Java's, if this worker runs Java connectors.

    Raises `ImportError` or `TypeError`, with the remedy.
    """
    module, _, name = path.rpartition(".")
    try:
        cls = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        if module and runtime.current() is not None:
            return java_task_class(path)
        raise ImportError(
            f"Task class {path} cannot be imported here ({error}). Install the connector's package here, too."
        ) from error
    if not (isinstance(cls, type) and issubclass(cls, SourceTask)):
        raise TypeError(f"{path} is not a subclass of ringfence.connectors.api.SourceTask")
    return cls
