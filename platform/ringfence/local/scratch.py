"""A folder to put a plugin together in, before it is renamed into `plugin.path`."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PREFIX: Final = ".ringfence-plugin-"


@contextmanager
def scratch_beside(folder: Path) -> Iterator[Path]:
    """An empty folder on the file system of `folder`, removed at the end; what killed processes left goes, too.

    It is beside `folder` and not in it, where a half-full one would be taken for a plugin. Raises OSError.
    """
    _remove_abandoned(folder.parent)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=folder.parent) as name:
        held = os.open(name, os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(held)


def _remove_abandoned(parent: Path) -> None:
    """The lock of a folder ends with the process that made it."""
    for left in parent.glob(f"{_PREFIX}*"):
        try:
            held = os.open(left, os.O_RDONLY)
        except FileNotFoundError:  # its owner has just removed it
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(left, ignore_errors=True)
        finally:
            os.close(held)
