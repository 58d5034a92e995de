"""The settings of Java connectors in a process: Java, the host's jars, the plugins' folders, the worker's converters.

The worker passes them to each process that runs plugin code: to plugin processes in an environment variable, to tasks
in their specification. Without them, a process cannot run Java connectors.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

PLUGIN_PATH: Final = "plugin.path"
INSTALL_PATH: Final = "plugin.install.path"
"""The folder of `plugin.path` for uploaded plugins; without it, plugins cannot be installed through this worker."""
JAVA_OPTIONS: Final = "java.options"
DEFAULT_OPTIONS: Final = "-Xms80m -Xmx256m -Xmn36m"
"""A fixed young generation costs 15 MiB more than the smallest one, and saves most full collections: Java would let the
heap grow by one at a time. A small initial heap: Java's default, a 64th of the machine's memory, fills up first.
"""
SHARED_OPTIONS: Final = "java.shared.options"
DEFAULT_SHARED_OPTIONS: Final = "-Xms128m -Xmx1g"
"""Of a JVM with several tasks (`processes`)."""
ENVIRONMENT: Final = "RINGFENCE_JAVA_CONNECTORS"
"""Passes `as_settings` to plugin processes, as JSON."""
_JAVA: Final = "ringfence.java"
_CLASS_PATH: Final = "ringfence.java.class.path"
_FIXED_OPTIONS: Final = "ringfence.java.options"
_FIXED_SHARED_OPTIONS: Final = "ringfence.java.shared.options"
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """java: the program; class_path: the host's jar and Kafka's; plugin_path: as in the worker setting.

    options: of a JVM with one task, split; shared_options: of one with several; worker: the worker's converter
    settings, the defaults of connectors; places: the plugin folders and jars that a JVM sees, () for all in
    plugin_path.
    """

    java: str
    class_path: str
    plugin_path: str
    options: tuple[str, ...] = ()
    shared_options: tuple[str, ...] = ()
    worker: Mapping[str, str] = field(default_factory=dict)
    places: tuple[str, ...] = ()

    def as_settings(self) -> dict[str, str]:
        """Return the settings that `of_settings` reads. Connectors in Python read those of converters, too."""
        return {
            _JAVA: self.java,
            _CLASS_PATH: self.class_path,
            PLUGIN_PATH: self.plugin_path,
            _FIXED_OPTIONS: json.dumps(self.options),
            _FIXED_SHARED_OPTIONS: json.dumps(self.shared_options),
            **{name: _OWN_DEFAULT if value == _DEFAULT_IN_JAVA else value for name, value in self.worker.items()},
        }

    @property
    def folders(self) -> tuple[str, ...]:
        return folders_in(self.plugin_path)


def folders_in(plugin_path: str) -> tuple[str, ...]:
    """Return the entries of the worker setting `plugin.path`."""
    return tuple(folder for each in plugin_path.split(",") if (folder := each.strip()))


def converters_of(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the worker's converter settings. In place of `TextOrJsonConverter`, Java gets the host's."""
    own = {name: value for name, value in settings.items() if name in _CONVERTERS or name.startswith(_PREFIXES)}
    return {name: _DEFAULT_IN_JAVA if value == _OWN_DEFAULT else value for name, value in own.items()}


_OWN_DEFAULT: Final = "TextOrJsonConverter"
_DEFAULT_IN_JAVA: Final = "io.ringfence.connect.TextOrJsonConverter"
_PREFIXES: Final = tuple(f"{name}." for name in _CONVERTERS)


def of_settings(settings: Mapping[str, str]) -> JavaRuntime | None:
    """Return the runtime of the settings, or None if they contain no Java."""
    if not settings.get(_JAVA):
        return None
    options, shared_options = (
        tuple(json.loads(settings.get(name, "[]"))) for name in (_FIXED_OPTIONS, _FIXED_SHARED_OPTIONS)
    )
    return JavaRuntime(
        settings[_JAVA],
        settings[_CLASS_PATH],
        settings[PLUGIN_PATH],
        options,
        shared_options,
        converters_of(settings),
    )


_current: list[JavaRuntime | None] = []


def declare(runtime: JavaRuntime | None) -> None:
    """Set the runtime of this process."""
    _current[:] = [runtime]


def current() -> JavaRuntime | None:
    """Return the declared runtime, or that of the environment if none was declared."""
    if not _current:
        declare(of_settings(json.loads(os.environ.get(ENVIRONMENT, "{}"))))
    return _current[0]
