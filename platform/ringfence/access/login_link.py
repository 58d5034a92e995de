"""A one-time login link, which `ringfence up` prints: its code is in the link, its digest in a file beside the data.

The first who follows it gets a session with the rights of the server's token, and the file is removed. No Django here,
because `up` makes the code.
"""

import hashlib
import os
import secrets
import time
from pathlib import Path

VALID_SECONDS = 3600.0


def create(path: Path) -> str:
    """Make a new code, and write its digest to the file. Earlier codes become invalid."""
    code = secrets.token_urlsafe(32)
    scratch = path.with_suffix(".new")
    scratch.unlink(missing_ok=True)
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(_digest(code))
    scratch.replace(path)
    return code


def redeem(path: Path | None, code: str) -> bool:
    """Return whether this is the code of an unused link, less than an hour old. The code is invalid afterwards."""
    if path is None or not code:
        return False
    own_path = path.with_suffix(f".{secrets.token_hex(8)}")
    try:
        age = time.time() - path.stat().st_mtime
        if not secrets.compare_digest(path.read_text().strip(), _digest(code)):
            return False
        path.rename(own_path)  # of two at once, one finds nothing to rename
        own_path.unlink()
    except FileNotFoundError:
        return False
    return 0 <= age <= VALID_SECONDS


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
