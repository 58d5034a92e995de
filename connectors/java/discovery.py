"""Finds Java connectors in `plugin.path` by their service manifests, without starting a JVM.

As in Kafka Connect, an entry is a folder or one jar; each folder and each jar directly in it is a plugin with its own
class loader. Plugins without a manifest (from before Kafka 3.6, KIP-898) are not found. Folders with Python packages
are skipped (`plugin_environments`).
"""

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

from ringfence.connectors.class_names import short_names
from ringfence.connectors.java import versions
from ringfence.connectors.plugin_environments import is_environment

_MANIFEST: Final = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"
_POM: Final = re.compile(r"META-INF/maven/.*/pom\.properties")
_IN_NAME: Final = re.compile(r"-(\d[^/]*)\.jar$")
_IMPLEMENTATION: Final = re.compile(r"^Implementation-Version:\s*(\S+)", re.MULTILINE)
_MOST: Final = 1024 * 1024
_ARCHIVES: Final = (".jar", ".zip")


@dataclass(frozen=True, slots=True)
class JavaPlugin:
    """One connector class. location: the folder or jar that it is loaded from; version: of its jar, or "unknown"."""

    class_name: str
    version: str
    location: str


@dataclass(frozen=True, slots=True)
class _Jar:
    path: str
    size: int
    changed_ns: int


Signature = tuple[_Jar, ...]


def find_plugins(folders: Sequence[str]) -> tuple[JavaPlugin, ...]:
    """Return all plugins, sorted by class, the newest version first. Only the first of two copies is returned.

    Unreadable folders are ignored.
    """
    plugins: dict[tuple[str, str], JavaPlugin] = {}
    for location in sorted({place for folder in folders for place in _locations(Path(folder))}):
        for jar in _jars(location):
            for class_name, version in _connectors_of(jar):
                plugins.setdefault((class_name, version), JavaPlugin(class_name, version, str(location)))
    newest = sorted(plugins.values(), key=lambda plugin: versions.order(plugin.version), reverse=True)
    return tuple(sorted(newest, key=lambda plugin: plugin.class_name))


def choose_plugin(plugins: Sequence[JavaPlugin], name: str, requirement: str | None) -> JavaPlugin | None:
    """Return the newest version of a class that matches `connector.plugin.version`, or None.

    Raises ValueError if `requirement` is neither a version nor a range.
    """
    return versions.choose(requirement, select_versions(plugins, name), lambda plugin: plugin.version)


def select_versions(plugins: Sequence[JavaPlugin], name: str) -> list[JavaPlugin]:
    """Return the installed versions of a class, by its full or short name."""
    full = [plugin for plugin in plugins if plugin.class_name == name]
    return full or [plugin for plugin in plugins if name in short_names(plugin.class_name)]


def find_places(folders: Sequence[str], selected_plugin: JavaPlugin | None) -> tuple[str, ...]:
    """Return the folders and jars in which a JVM for this version looks for plugins; () for all.

    They exclude other versions of this plugin, and all but the newest version of other plugins.
    """
    everywhere = {str(place) for folder in folders for place in _locations(Path(folder))}
    classes_by_place: dict[str, set[str]] = {}
    newest: dict[str, str] = {}
    for plugin in find_plugins(folders):
        newest.setdefault(plugin.class_name, plugin.location)
        classes_by_place.setdefault(plugin.location, set()).add(plugin.class_name)
    here = "" if selected_plugin is None else selected_plugin.location
    own = classes_by_place.get(here, set())
    left_out = {
        location
        for location, classes in classes_by_place.items()
        if location != here and (classes & own or all(newest[each] != location for each in classes))
    }
    return tuple(sorted(everywhere - left_out)) if left_out else ()


def find_signature(folders: Sequence[str]) -> Signature:
    """Return a signature that changes when a jar is added, replaced or removed."""
    return tuple(jar for folder in folders for place in _locations(Path(folder)) for jar in _jars(place))


def _locations(entry: Path) -> Iterator[Path]:
    if entry.suffix in _ARCHIVES:
        yield entry
        return
    try:
        inside = sorted(entry.iterdir())
    except OSError:
        return
    yield from (each for each in inside if each.suffix in _ARCHIVES or (each.is_dir() and not is_environment(each)))


def _jars(location: Path) -> Iterator[_Jar]:
    paths = [location] if location.suffix in _ARCHIVES else sorted(location.rglob("*.jar"))
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        yield _Jar(str(path), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=10_000)
def _connectors_of(jar: _Jar) -> tuple[tuple[str, str], ...]:
    """Return class and version of each connector in the jar's manifest. Empty for an unreadable jar."""
    try:
        with ZipFile(jar.path) as archive:
            names = archive.namelist()
            if _MANIFEST not in names:
                return ()
            lines = _read(archive, _MANIFEST).splitlines()
            version = _version(archive, names, jar)
    except (OSError, BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):  # damaged or encrypted
        return ()
    classes = (line.partition("#")[0].strip() for line in lines)
    return tuple((each, version) for each in classes if each)


def _read(archive: ZipFile, name: str) -> str:
    """Return a file's text, up to a limit, because a few bytes may decompress to gigabytes."""
    with archive.open(name) as file:
        return file.read(_MOST).decode("utf-8", "replace")


def _version(archive: ZipFile, names: Sequence[str], jar: _Jar) -> str:
    """Return Maven's version if the jar contains one artifact; otherwise that in its manifest, or in its name."""
    poms = [name for name in names if _POM.fullmatch(name)]
    if len(poms) == 1:
        match = re.search(r"^version=(\S+)", _read(archive, poms[0]), re.MULTILINE)
        if match:
            return match[1]
    if "META-INF/MANIFEST.MF" in names:
        match = _IMPLEMENTATION.search(_read(archive, "META-INF/MANIFEST.MF"))
        if match:
            return match[1]
    match = _IN_NAME.search(os.path.basename(jar.path))
    return match[1] if match else "unknown"
