"""A file system of a few hundred megabytes, to be filled by a test."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_CHUNK = bytes(1024 * 1024)


@contextmanager
def new_small_disk(place: Path, size: str) -> Iterator[Path]:
    """Mounted at `place`, which is created; `size` as in `256m`. Mounting takes root: skips."""
    place.mkdir(mode=0o700)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "none", str(place)], capture_output=True
    )
    if made.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {made.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Write until not a single byte more fits; the file to delete afterwards."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (len(_CHUNK), 4096, 1):
            try:
                while file.write(_CHUNK[:size]):
                    pass
            except OSError:
                continue
    return ballast
