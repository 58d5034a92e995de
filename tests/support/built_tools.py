"""Programs that make builds from their Go modules, or that are on the PATH."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / ".venv" / "tools"


def find(program: str, remedy: str) -> str:
    """The path of a program. Skips the test where there is none."""
    path = shutil.which(program, path=f"{TOOLS / 'bin'}:{os.environ['PATH']}")
    if path is None:
        pytest.skip(f"no {program}: {remedy}")
    return path


@contextmanager
def started(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in the folder of its log, until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=log.parent)
    try:
        yield process
    finally:
        process.kill()  # nobody reads its data again
        process.wait(30)
