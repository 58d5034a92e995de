"""Two files change places in one step."""

import ctypes
from pathlib import Path


def exchange(one: Path, other: Path) -> None:
    """In one step: while a database is missing, whoever opens it makes an empty one, and its log goes."""
    here, both = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if ctypes.CDLL(None, use_errno=True).renameat2(here, bytes(one), here, bytes(other), both):
        raise OSError(ctypes.get_errno(), "renameat2", str(one))
