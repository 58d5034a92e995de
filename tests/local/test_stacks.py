"""A process that hangs says where: `kill -USR2` writes its stacks to its log, and it goes on."""

import signal
import subprocess
import sys

import pytest

HANGS = """
import ctypes
from ringfence.crashes import enable_crash_reports

def hang_in_c():
    print("hangs", flush=True)
    ctypes.PyDLL(None).pause()  # with Python's global lock, until a signal

enable_crash_reports()
hang_in_c()
print("goes on", flush=True)
"""


@pytest.mark.parametrize("options", [[], ["-X", "faulthandler"]])
def test_a_process_that_hangs_in_c_writes_its_stacks_and_goes_on(options: list[str]) -> None:
    with subprocess.Popen(
        [sys.executable, *options, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "hangs\n"
        while process.poll() is None:  # the first may come before it waits
            process.send_signal(signal.SIGUSR2)
            try:
                output, stacks = process.communicate(timeout=1)
            except subprocess.TimeoutExpired:
                continue
    assert "in hang_in_c" in stacks
    assert output == "goes on\n"
    assert process.returncode == 0
