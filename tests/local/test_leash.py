"""Nothing that was started on a leash outlives its parent, however that one dies."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import GuardedProcess, process_exists
from tests.support.waiting import eventually

# Starts three processes: a child, one that left for a process group of its own, one that left for a session of its own.
FAMILY = """
import os, subprocess, sys, time
ways = ({}, {"process_group": 0}, {"start_new_session": True})
children = [subprocess.Popen(["sleep", "1000"], **way) for way in ways]
with open(sys.argv[1] + ".tmp", "w") as file:
    file.write(" ".join(str(pid) for pid in [os.getpid(), *(child.pid for child in children)]))
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
time.sleep(1000)
"""

PARENT = """
import sys, time
from pathlib import Path
from ringfence.local.guarded_process import GuardedProcess
GuardedProcess.start("family", [sys.executable, "-c", sys.argv[1], sys.argv[2]], log=Path(sys.argv[2] + ".log"))
time.sleep(1000)
"""

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000)"
)


def family(file: Path) -> list[int]:
    eventually(file.exists, 20, "the family to be complete")
    return [int(pid) for pid in file.read_text().split()]


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if process_exists(pid)]


def start(tmp_path: Path, *command: str, pid_file: Path | None = None) -> GuardedProcess:
    return GuardedProcess.start("it", command, log=tmp_path / "it.log", pid_file=pid_file)


def test_a_killed_parent_leaves_no_orphans(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, FAMILY, str(file)])
    pids = family(file)
    assert alive(pids) == pids
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    eventually(lambda: not alive(pids), 30, lambda: f"still there: {alive(pids)}")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_a_killed_leash_takes_its_command_along(tmp_path: Path) -> None:
    it = start(tmp_path, "sleep", "1000")
    leash = int(Path(f"/proc/{it.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(leash, signal.SIGKILL)
    eventually(lambda: not process_exists(it.pid), 30, "the command to end")
    assert it.wait(30)


def test_what_a_killed_command_left_behind_is_gone_before_its_end_is_told(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    it = start(tmp_path, sys.executable, "-c", FAMILY, str(file))
    pids = family(file)
    os.kill(it.pid, signal.SIGKILL)
    eventually(lambda: it.poll() is not None, 30, "the end to be told")
    assert alive(pids) == []
    assert it.poll() == 128 + signal.SIGKILL


def test_the_pid_file_names_the_command_and_goes_with_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "run" / "it.pid"
    it = start(tmp_path, "sleep", "1000", pid_file=pid_file)
    assert int(pid_file.read_text()) == it.pid
    assert it.stop(30)
    assert not pid_file.exists()
    assert it.poll() == 128 + signal.SIGTERM


def test_output_and_exit_code_arrive(tmp_path: Path) -> None:
    it = start(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 7")
    assert it.wait(30)
    assert it.poll() == 7
    assert (tmp_path / "it.log").read_text().split() == ["out", "err"]


def test_a_deaf_command_is_killed_after_its_grace(tmp_path: Path) -> None:
    it = start(tmp_path, sys.executable, "-c", STUBBORN)
    eventually(lambda: "deaf" in (tmp_path / "it.log").read_text(), 10, "the command to be deaf")
    assert not it.stop(0.2)
    assert not process_exists(it.pid)


def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="/no/such/command: No such file"):
        start(tmp_path, "/no/such/command")
