"""The wall clock of a whole `ringfence up`, which a test sets forward and back while everything runs."""

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_suffix(".c")


class ShiftedClock:
    """`settings` are for the environment of the processes whose clock it is."""

    def __init__(self, root: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("no C compiler on this machine: apt-get install gcc")
        library, shared = root / "clock_shift.so", root / "clock"
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, _SOURCE, "-ldl"], check=True)
        shared.write_bytes(struct.pack("d", 0.0))
        with shared.open("r+b") as file:
            self._shift = mmap.mmap(file.fileno(), 8)
        self.settings = {"LD_PRELOAD": str(library), "RINGFENCE_TEST_CLOCK": str(shared)}

    def set_off(self, seconds: float) -> None:
        """From now on all clocks show real time plus `seconds`."""
        self._shift[:] = struct.pack("d", seconds)
