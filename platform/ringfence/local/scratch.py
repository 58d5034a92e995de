"""A folder for assembling a plugin before it is renamed into `plugin.path`."""

import errno
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
