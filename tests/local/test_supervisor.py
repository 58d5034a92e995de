"""A role that dies is started again, one that cannot live is reported, and all are stopped in reverse order."""

import os
import signal
import sys
from pathlib import Path

import pytest

from ringfence.local import supervisor as supervisor_module
from ringfence.local.errors import LocalError
from ringfence.local.guarded_process import GuardedProcess, process_exists
from ringfence.local.supervisor import Supervisor
from tests.support.waiting import eventually

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('deaf', 'w'); time.sleep(1000)"


class Sleeper:
    """A role that does nothing, or whatever else it is told."""

    grace = 0.3
    settled = False

    def __init__(self, name: str, root: Path, *command: str) -> None:
        self.name = name
        self._root = root
        self._command = command or ("sleep", "1000")
        self._process: GuardedProcess | None = None

    def launch(self) -> None:
        root = self._root
        self._process = GuardedProcess.start(
            self.name, self._command, log=root / "log", cwd=root, pid_file=root / f"{self.name}.pid"
        )

    def process(self) -> GuardedProcess | None:
        return self._process

    def settle(self) -> None:
        self.settled = True

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid


def test_a_role_that_dies_is_started_again_with_a_new_pid_file(tmp_path: Path) -> None:
    supervisor, role = Supervisor(), Sleeper("worker-1", tmp_path)
    supervisor.launch(role)
    try:
        first = role.pid
        os.kill(first, signal.SIGKILL)
        assert supervisor.tend_until(lambda: role.pid != first, 30)
        assert int((tmp_path / "worker-1.pid").read_text()) == role.pid
        assert process_exists(role.pid)
    finally:
        supervisor.stop()


def test_the_first_restart_is_at_once_and_the_next_one_after_a_pause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    supervisor, role = Supervisor(), Sleeper("worker-1", tmp_path)
    supervisor.launch(role)
    pids = [role.pid]
    try:
        for _ in range(2):
            os.kill(role.pid, signal.SIGKILL)
            process = role.process()
            assert process is not None
            eventually(lambda process=process: process.poll() is not None, 10, "its end")  # type: ignore[misc]
            supervisor.tend()
            pids.append(role.pid)
    finally:
        supervisor.stop()
    assert pids[0] != pids[1] == pids[2]
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "worker-1 was ended by SIGKILL; it is started again"
    assert said[1].startswith("worker-1 was ended by SIGKILL; it is started again in 0.")


def test_a_role_that_cannot_live_is_reported_with_its_last_words(tmp_path: Path) -> None:
    supervisor = Supervisor()
    supervisor.launch(Sleeper("web", tmp_path, "sh", "-c", "echo no such table; exit 1"))
    with pytest.raises(LocalError, match=r"web does not stay up \(no such table\): see "):
        supervisor.tend_until(lambda: False, 30)
    supervisor.stop()


def test_all_are_stopped_in_reverse_order_the_deaf_by_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    supervisor = Supervisor()
    roles = [Sleeper("kafka", tmp_path), Sleeper("web", tmp_path), Sleeper("worker-1", tmp_path)]
    roles.append(Sleeper("worker-2", tmp_path, sys.executable, "-c", DEAF))
    for role in roles:
        supervisor.launch(role)
    eventually((tmp_path / "deaf").exists, 10, "worker-2 to be deaf")
    supervisor.stop()
    assert [role.name for role in roles if process_exists(role.pid)] == []
    said = [line.split(" …")[0] for line in capsys.readouterr().out.splitlines()]
    assert said == ["stopping worker-1, worker-2", "stopping web", "stopping kafka"]


def test_a_role_that_ends_last_outlives_those_that_were_launched_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    supervisor = Supervisor()
    kafka = Sleeper("kafka", tmp_path)
    supervisor.launch(Sleeper("worker-1", tmp_path))
    supervisor.launch(kafka, ends_last=True)
    supervisor.stop()
    said = [line.split(" …")[0] for line in capsys.readouterr().out.splitlines()]
    assert said == ["stopping worker-1", "stopping kafka"]
    assert kafka.settled


def test_who_asks_twice_to_stop_waits_for_nothing_that_only_the_next_start_needs(tmp_path: Path) -> None:
    supervisor, kafka = Supervisor(), Sleeper("kafka", tmp_path)
    supervisor.launch(kafka)
    supervisor.end_now()
    supervisor.stop()
    assert not kafka.settled


def test_the_log_of_a_running_role_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module.rotate, "__defaults__", (20, 1))
    monkeypatch.setattr(supervisor_module, "_ROTATE_SECONDS", 0.0)
    supervisor, role = Supervisor(), Sleeper("web", tmp_path, "sh", "-c", "echo one long line of its log; sleep 1000")
    supervisor.launch(role)
    try:
        assert supervisor.tend_until((tmp_path / "log.1").exists, 30)
        assert (tmp_path / "log.1").read_text() == "one long line of its log\n"
        assert (tmp_path / "log").read_text() == ""
    finally:
        supervisor.stop()
