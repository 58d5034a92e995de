"""The folders of plugins: assembled beside `plugin.path` before they are renamed into it, and what they contain."""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ringfence.connectors.java.discovery import find_plugins
from ringfence.connectors.plugin_environments import is_environment, open_environment

_PREFIX: Final = ".ringfence-plugin-"


@contextmanager
def scratch_beside(folder: Path) -> Iterator[Path]:
    """Yield an empty folder on the file system of `folder`. It is removed at the end, and so are remains of killed
    processes.

    It is beside `folder`, not in it, where an incomplete one would be taken for a plugin. Raises OSError.
    """
    with _lock(folder.parent):  # or another process would take a folder without a lock for an abandoned one
        _remove_abandoned(folder.parent)
        directory = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=folder.parent)
        lock = os.open(directory.name, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        with directory as name:
            yield Path(name)
    finally:
        os.close(lock)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def put_in_place(source: Path, target: Path) -> None:
    """Rename the folder to `target`, unless another process has just created that. Raises OSError."""
    try:
        source.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _remove_abandoned(parent: Path) -> None:
    """Remove folders whose lock has ended together with their process."""
    for left in parent.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(left, os.O_RDONLY)
        except FileNotFoundError:  # its owner has just removed it
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(left, ignore_errors=True)
        finally:
            os.close(lock)


FILES: Final = ".ringfence-files.json"
"""In a Python plugin's folder: the SHA-256 of each installed file, by its name."""


@dataclass(frozen=True, slots=True)
class Contents:
    """An installed plugin: its folder, the version of each connector's class, and the SHA-256 of each jar or wheel."""

    folder: Path
    connectors: Mapping[str, str]
    files: Mapping[str, str]


def read_contents(folder: Path) -> Contents:
    """Read the contents of a plugin's own folder."""
    if is_environment(folder):
        python = {each.class_name: each.version for each in open_environment(folder).plugins}
        return Contents(folder, python, read_files(folder))
    connectors = {each.class_name: each.version for each in find_plugins([os.fspath(folder)])}
    jars = {str(jar.relative_to(folder)): digest(jar) for jar in sorted(folder.rglob("*.jar"))}
    return Contents(folder, connectors, jars)


def read_files(environment: Path) -> dict[str, str]:
    """Return the files of a Python plugin; {} for a manual installation."""
    try:
        files: dict[str, str] = json.loads((environment / FILES).read_text())
    except FileNotFoundError:
        return {}
    return files


def describe(folder: Path) -> str:
    """Describe an installed plugin: its folder, its connectors with versions, and its files in the form of
    `sha256sum`.
    """
    contents = read_contents(folder)
    connectors = [f"{class_name} {version}" for class_name, version in contents.connectors.items()]
    files = [f"{sha256}  {name}" for name, sha256 in contents.files.items()]
    return "\n".join([str(folder), *connectors, *files])


def digest(file: Path) -> str:
    """Return its SHA-256, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
