"""Whether a package was installed, upgraded or removed since a process looked: by the folders that packages are in."""

import os
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

State = frozenset[tuple[str, int]]
_PACKAGES = ("site-packages", "dist-packages")


def installed_state(environment: Mapping[str, str] | None = None) -> State:
    """Equal as long as no package came, went or was replaced. Each of these touches the folder that it happens in.

    `environment`: of a process that is started by this one; its PYTHONPATH counts, too.
    """
    folders = {*(path for path in sys.path if Path(path).name in _PACKAGES), *_more_folders(environment)}
    return frozenset((path, changed_at(path)) for path in folders)


def find_distributions(environment: Mapping[str, str] | None = None) -> Iterable[Distribution]:
    """What is installed, for a process with this environment."""
    return distributions(path=[*_more_folders(environment), *sys.path])


def _more_folders(environment: Mapping[str, str] | None) -> list[str]:
    more = {**os.environ, **(environment or {})}.get("PYTHONPATH", "").split(os.pathsep)
    return [folder for folder in more if folder]


def changed_at(path: str) -> int:
    """When a folder was changed last, in nanoseconds; 0 for one that cannot be looked at."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
