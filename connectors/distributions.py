"""Detects that packages were installed, upgraded or removed since a process started, by their folders."""

import os
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

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
