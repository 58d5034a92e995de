"""Finds connectors: every entry point of the group `ringfence.connectors`, by any of the names that users write."""

import importlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from ringfence.connectors.api import SourceConnector, SourceTask
from ringfence.connectors.class_names import class_name
from ringfence.connectors.installed import State, installed_state

GROUP: Final = "ringfence.connectors"


class UnknownConnector(LookupError):
    """No connector of that name, or more than one; the message lists those that there are."""


@dataclass(frozen=True)
class PluginInfo:
    """One connector that can be run. `class_name` is its Python class, dotted; `names` are all that users may write."""

    cls: type[SourceConnector]
    class_name: str
    names: frozenset[str]
    type: str = "source"

    @property
    def version(self) -> str:
        return self.cls.version


@dataclass
class PluginRegistry:
    """The connectors that are installed. One that cannot be loaded is left out, and `broken` says why."""

    plugins: list[PluginInfo] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    seen: State | None = None
    """What was installed when the entry points were looked for; None where they were given."""

    @classmethod
    def discover(cls, points: Iterable[EntryPoint] | None = None) -> "PluginRegistry":
        """Load every entry point of the group (or the given ones)."""
        registry = cls(seen=installed_state() if points is None else None)
        for point in sorted(points if points is not None else entry_points(group=GROUP)):
            try:
                registry.plugins.append(describe(point.load(), point.name))
            except Exception as error:  # noqa: BLE001 - foreign code is imported; kept as the plugin's own error
                registry.broken[point.name] = f"{type(error).__name__}: {error}"
        return registry

    def find(self, name: str) -> PluginInfo:
        """The connector of this name, class or alias. Raises `UnknownConnector`, in Kafka Connect's words.

        One that was installed in the meantime is found; one that was loaded before stays as it is until its process
        ends.
        """
        try:
            return self._find(name)
        except UnknownConnector:
            if self.seen is None or self.seen == installed_state():
                raise
        importlib.invalidate_caches()
        newer = PluginRegistry.discover()
        self.plugins, self.broken, self.seen = newer.plugins, newer.broken, newer.seen
        return self._find(name)

    def _find(self, name: str) -> PluginInfo:
        found = [each for each in self.plugins if each.class_name == name] or [
            each for each in self.plugins if name in each.names
        ]
        if len(found) == 1:
            return found[0]
        if found:
            classes = ", ".join(plugin.class_name for plugin in found)
            raise UnknownConnector(
                f"More than one connector matches alias {name}; use the whole name of one of: {classes}"
            )
        if name in self.broken:
            raise UnknownConnector(f"Connector {name} is installed but cannot be loaded: {self.broken[name]}")
        available = ", ".join(plugin.class_name for plugin in self.plugins) or "none"
        raise UnknownConnector(
            f"Failed to find any class that implements Connector and which name matches {name}, "
            f"available connectors are: {available}"
        )


def describe(cls: object, entry_name: str | None = None) -> PluginInfo:
    """What is known of a connector class. Raises `TypeError` for a class that is no `SourceConnector`."""
    if not (isinstance(cls, type) and issubclass(cls, SourceConnector)):
        raise TypeError(f"{cls!r} is not a subclass of connectors.api.SourceConnector")
    names = {class_path(cls), *cls.aliases}
    if entry_name is not None:
        names.add(entry_name)
    for name in (cls.__name__, *cls.aliases):
        simple = name.rpartition(".")[2]
        names |= {simple, simple.removesuffix("Connector")}
    return PluginInfo(cls, class_path(cls), frozenset(names))


def class_path(cls: type) -> str:
    """The dotted path that `load_task_class` reads back; what a task configuration carries as `task.class`."""
    return class_name(cls)


def load_task_class(path: str) -> type[SourceTask]:
    """The task class of a dotted path. Raises `ImportError` or `TypeError`, with what to do about it."""
    module, _, name = path.rpartition(".")
    try:
        cls = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ImportError(
            f"Task class {path} cannot be imported here ({error}). Install the connector's package here, too."
        ) from error
    if not (isinstance(cls, type) and issubclass(cls, SourceTask)):
        raise TypeError(f"{path} is not a subclass of ringfence.connectors.api.SourceTask")
    return cls
