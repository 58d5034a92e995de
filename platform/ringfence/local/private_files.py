"""Files that only their owner can read, from their first byte on."""

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write the file, mode 0600, or replace it. It is complete or as before, never partial."""
    scratch = path.with_name(f".{path.name}.tmp")
    scratch.unlink(missing_ok=True)  # its mode may be another
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    scratch.replace(path)
