"""Finds Python plugins in `plugin.path` with their own environments, by their metadata: none is imported. And detects
that packages were installed, upgraded or removed since a process started, by their folders.

An entry of `plugin.path` contains a folder for each: a virtual environment, or the target of `pip install --target`.
Its packages come before the worker's own, except for those that are loaded before any plugin.
"""

import os
import site
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from typing import Final

from ringfence.connectors.class_names import short_names
from ringfence.connectors.java import versions

State = frozenset[tuple[str, int]]
_PACKAGES = ("site-packages", "dist-packages")


def installed_state(environment: Mapping[str, str] | None = None) -> State:
    """Return a state that is equal until a package is added, removed or replaced. Each of these touches its folder.

    environment: of a process that this one starts; its PYTHONPATH is included.
    """
    folders = {*(path for path in sys.path if Path(path).name in _PACKAGES), *_more_folders(environment)}
    return frozenset((path, changed_at(path)) for path in folders)


def find_distributions(environment: Mapping[str, str] | None = None) -> Iterable[Distribution]:
    """Return the distributions that a process with this environment finds."""
    return distributions(path=[*_more_folders(environment), *sys.path])


def _more_folders(environment: Mapping[str, str] | None) -> list[str]:
    more = {**os.environ, **(environment or {})}.get("PYTHONPATH", "").split(os.pathsep)
    return [folder for folder in more if folder]


def changed_at(path: str) -> int:
    """Return when a folder was last changed, in nanoseconds; 0 if it cannot be read."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


GROUP: Final = "ringfence.connectors"
"""The group of entry points that name connector classes."""
ENVIRONMENT: Final = "RINGFENCE_PLUGIN_PACKAGES"
"""The variable that passes its plugin environment to a process."""
_PYTHON: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True, slots=True)
class PythonPlugin:
    """One connector class, dotted. version: its distribution's. names: all that users may write for it."""

    class_name: str
    version: str
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class PluginEnvironment:
    """folder: one in `plugin.path`. packages: the entry for Python's path, with the time of its last change.

    Equal until something is installed, upgraded or removed in it.
    """

    folder: str
    packages: str
    changed_ns: int

    @property
    def plugins(self) -> tuple[PythonPlugin, ...]:
        return _plugins_of(self)

    @property
    def problem(self) -> str | None:
        """Why nothing in it can run; None if something can."""
        if not self.packages:
            return f"{self.folder} was made for another Python than this worker's: install it again with {_PYTHON}"
        return None

    def as_variables(self) -> dict[str, str]:
        """Return the variables with which a process can `enter` it. They differ if the environment has changed."""
        return {ENVIRONMENT: self.packages, f"{ENVIRONMENT}_CHANGED": str(self.changed_ns)} if self.packages else {}


def is_environment(folder: Path) -> bool:
    """Return whether a folder in `plugin.path` contains Python packages, and is therefore not a Java plugin."""
    return (folder / "pyvenv.cfg").is_file() or any(folder.glob("*.dist-info"))


def find_environments(folders: Sequence[str]) -> tuple[PluginEnvironment, ...]:
    """Return the environments in these entries of `plugin.path`, by folder. Unreadable entries are skipped."""
    return tuple(open_environment(place) for folder in folders for place in _environments(Path(folder)))


def open_environment(folder: Path) -> PluginEnvironment:
    """Return the environment in a folder (see `is_environment`)."""
    packages = folder / "lib" / _PYTHON / "site-packages" if (folder / "pyvenv.cfg").is_file() else folder
    if not packages.is_dir():
        return PluginEnvironment(str(folder), "", 0)
    return PluginEnvironment(str(folder), str(packages), changed_at(str(packages)))


def choose_environment(
    environments: Sequence[PluginEnvironment], name: str, requirement: str | None, other_names: frozenset[str]
) -> PluginEnvironment | None:
    """Return the environment with the newest version of a connector that `connector.plugin.version` accepts.

    None if there is none, or the requirement is neither a version nor a range. other_names: short names of other
    connectors.
    """
    candidates = [
        (environment, plugin)
        for environment in environments
        for plugin in environment.plugins
        if name == plugin.class_name or name in plugin.names - other_names
    ]
    try:
        choice = versions.choose(requirement, candidates, lambda each: each[1].version)
    except ValueError:  # validation reports it
        return None
    return None if choice is None else choice[0]


def names_of(point: EntryPoint) -> frozenset[str]:
    """Return all names that users may write for an entry point's connector, as far as known without loading it."""
    class_name = f"{point.module}.{point.attr}"
    return frozenset({class_name, point.name, *short_names(class_name)})


def describe_point(point: EntryPoint) -> PythonPlugin:
    """Describe an entry point's connector without loading it."""
    version = point.dist.version if point.dist is not None else "unknown"
    return PythonPlugin(f"{point.module}.{point.attr}", version, names_of(point))


def enter(variables: Mapping[str, str]) -> None:
    """Put the packages of the environment in these variables first on this process's path. Does nothing without one."""
    packages = variables.get(ENVIRONMENT, "")
    if not packages:
        return
    before = list(sys.path)
    site.addsitedir(packages)  # with its .pth files, which namespace packages may need
    sys.path[:] = [*(each for each in sys.path if each not in before), *before]


def find_entered(variables: Mapping[str, str]) -> PluginEnvironment | None:
    """Return the environment that this process has entered, or None."""
    packages = variables.get(ENVIRONMENT, "")
    return PluginEnvironment(packages, packages, changed_at(packages)) if packages else None


def entry_points_of(environment: PluginEnvironment) -> list[EntryPoint]:
    """Return the entry points of its connectors."""
    if not environment.packages:
        return []
    installed = distributions(path=[environment.packages])
    return [point for each in installed for point in each.entry_points if point.group == GROUP]


@lru_cache(maxsize=1000)
def _plugins_of(environment: PluginEnvironment) -> tuple[PythonPlugin, ...]:
    plugins = map(describe_point, entry_points_of(environment))
    return tuple(sorted(plugins, key=lambda plugin: plugin.class_name))


def _environments(entry: Path) -> Iterator[Path]:
    try:
        inside = sorted(entry.iterdir())
    except OSError:
        return
    yield from (each for each in inside if each.is_dir() and is_environment(each))
