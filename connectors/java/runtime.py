"""What a process needs to run Java connectors: a Java, the host's jars, the plugins' folders, the worker's converters.

The worker says it once for each process that runs plugin code: in an environment variable of plugin processes, in the
specification of a task. A process that was told nothing has no Java connectors.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PLUGIN_PATH: Final = "plugin.path"
INSTALL_PATH: Final = "plugin.install.path"
"""The folder of `plugin.path` where this worker puts what people install; without it nobody can."""
JAVA_OPTIONS: Final = "java.options"
DEFAULT_OPTIONS: Final = "-Xms24m -Xmx256m"
"""A small heap to begin with: Java's own choice, a 64th of the machine's memory, fills before it is collected once."""
ENVIRONMENT: Final = "RINGFENCE_JAVA_CONNECTORS"
"""Carries `as_settings` to plugin processes, as JSON."""
_JAVA: Final = "ringfence.java"
_CLASS_PATH: Final = "ringfence.java.class.path"
_FIXED_OPTIONS: Final = "ringfence.java.options"
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """java: the program; class_path: the host's jar and Kafka's; plugin_path: folders, as the worker setting has them.

    options: for the JVM, split; worker: the worker's converter settings, which connectors fall back to.
    places: the plugins' own folders and jars that a JVM sees; () for all in plugin_path.
    """

    java: str
    class_path: str
    plugin_path: str
    options: tuple[str, ...] = ()
    worker: Mapping[str, str] = field(default_factory=dict)
    places: tuple[str, ...] = ()

    def as_settings(self) -> dict[str, str]:
        """The inverse of `of_settings`."""
        return {
            _JAVA: self.java,
            _CLASS_PATH: self.class_path,
            PLUGIN_PATH: self.plugin_path,
            _FIXED_OPTIONS: json.dumps(self.options),
            **self.worker,
        }

    @property
    def folders(self) -> tuple[str, ...]:
        return folders_in(self.plugin_path)


def folders_in(plugin_path: str) -> tuple[str, ...]:
    """The entries of the worker setting `plugin.path`."""
    return tuple(folder for each in plugin_path.split(",") if (folder := each.strip()))


def converters_of(settings: Mapping[str, str]) -> dict[str, str]:
    """The worker's settings that say how to convert."""
    return {name: value for name, value in settings.items() if name in _CONVERTERS or name.startswith(_PREFIXES)}


_PREFIXES: Final = tuple(f"{name}." for name in _CONVERTERS)


def of_settings(settings: Mapping[str, str]) -> JavaRuntime | None:
    """None where the settings name no Java."""
    if not settings.get(_JAVA):
        return None
    options = tuple(json.loads(settings.get(_FIXED_OPTIONS, "[]")))
    return JavaRuntime(settings[_JAVA], settings[_CLASS_PATH], settings[PLUGIN_PATH], options, converters_of(settings))


_current: list[JavaRuntime | None] = []


def declare(runtime: JavaRuntime | None) -> None:
    """For this process, from now on."""
    _current[:] = [runtime]


def current() -> JavaRuntime | None:
    """As declared; of the environment where nobody has."""
    if not _current:
        declare(of_settings(json.loads(os.environ.get(ENVIRONMENT, "{}"))))
    return _current[0]
