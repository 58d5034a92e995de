"""Limits the log files of roles that run for months, without a signal to the role.

A role's output is appended to its log, so the file can be copied and truncated while it is open. Lines that are written
in between may be lost.
"""

import shutil
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 64 * 1024 * 1024
KEPT: Final = 3


def rotate(log: Path, max_bytes: int = MAX_BYTES, count: int = KEPT) -> bool:
    """Move the content of a log of at least `max_bytes` to LOG.1, and LOG.1 to LOG.2. Returns whether it was that
    large.

    The oldest of the `count` files is deleted.
    """
    try:
        if log.stat().st_size < max_bytes:
            return False
    except FileNotFoundError:
        return False
    for number in range(count - 1, 0, -1):
        older = _backup_path(log, number)
        if older.exists():
            older.replace(_backup_path(log, number + 1))
    shutil.copyfile(log, _backup_path(log, 1))
    with log.open("r+b") as file:
        file.truncate(0)
    return True


def _backup_path(log: Path, number: int) -> Path:
    return log.with_name(f"{log.name}.{number}")
