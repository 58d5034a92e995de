"""The JVMs that tasks share (`java.process=shared`)."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil


def running_jvms(folder: Path) -> list[psutil.Process]:
    """Those of the processes whose TMPDIR this is."""
    found = []
    for file in folder.glob("ringfence-java-*/*/pid"):
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(int(file.read_text()))
            if process.status() != psutil.STATUS_ZOMBIE and is_shared(process):
                found.append(process)
    return found


def is_shared(java: psutil.Process) -> bool:
    return "io.ringfence.connect.SharedHost" in java.cmdline()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A value for TMPDIR, short enough for a Unix socket. Its JVMs end with it."""
    with tempfile.TemporaryDirectory(prefix="rf-", dir="/tmp") as root:
        folder = Path(root)
        try:
            yield folder
        finally:
            for java in running_jvms(folder):
                java.kill()
                java.wait()
