"""Tasks in one JVM: what each has for itself, and what ends all of them. Real JVMs, no Kafka."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.java import processes, runtime
from ringfence.connectors.java import task as java_task
from ringfence.connectors.java.channel import JavaChannel, JavaEnded
from ringfence.connectors.java.task import JavaSourceTask
from ringfence.fencing.task.plugin_metrics import Gauges
from ringfence.local.guarded_process import process_exists
from tests.connectors.java.conftest import Start
from tests.support.java_plugins import runtime_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("plugins", "shared_folder")


@pytest.fixture
def start_two(start: Start) -> tuple[JavaSourceTask, JavaSourceTask]:
    return start("wait", name="one", java_process="shared"), start("wait", name="two", java_process="shared")


def channel(task: JavaSourceTask) -> JavaChannel:
    assert task._process is not None
    return task._process


def wait_for_end(task: JavaSourceTask) -> str:
    """Why the task's process has ended."""

    def poll() -> str:
        try:
            task.poll()
        except JavaEnded as error:
            return str(error)
        return ""

    return eventually(poll, 60, "the end of the process", pause=0.0)


def test_one_ends_and_the_other_goes_on(start_two: tuple[JavaSourceTask, JavaSourceTask]) -> None:
    one, two = start_two
    process, connection = channel(two), channel(one)
    assert process.pid == connection.pid
    one.stop()
    eventually(lambda: connection.ended is not None, 10, "the connection's end")
    before = process.last_sign
    eventually(lambda: process.last_sign > before, 20, "a heartbeat")
    assert process.ended is None


@pytest.mark.slow
def test_it_ends_some_time_after_its_last_task(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_IDLE_SECONDS", 2)
    task = start("wait", java_process="shared")
    pid = channel(task).pid
    task.stop()
    eventually(lambda: not process_exists(pid), 20, "the end of the JVM")
    assert channel(start("wait", java_process="shared")).pid != pid


@pytest.mark.thorough
def test_logs_and_metrics_are_the_tasks_own(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that the plugin starts belongs to its task, too."""
    monkeypatch.setattr(java_task, "_STOP_SECONDS", 0.5)
    with caplog.at_level("INFO"):
        task = start("wait", name="one", java_process="shared")
        other = start("hang", name="two", java_process="shared")
        eventually(lambda: "a thread of one" in caplog.text, 30, lambda: caplog.text)
        eventually(lambda: "a thread of two" in caplog.text, 30, lambda: caplog.text)
    log, other_log = (str(channel(each)._log) for each in (task, other))
    assert "printed by a plugin for one" in log
    assert "a thread of one" in log
    assert "two" not in log
    assert "a thread of two" in other_log
    gauges = [each.context.metrics for each in (task, other)]

    def values() -> list[list[object]]:
        for each in (task, other):
            each.poll()
        return [[one["value"] for one in each.report()] for each in gauges if isinstance(each, Gauges)]

    eventually(lambda: values() == [[1.0], [7.0]], 30, lambda: values())


def test_an_exit_ends_all_and_says_who_called_it(
    start: Start, start_two: tuple[JavaSourceTask, JavaSourceTask]
) -> None:
    start("exit", java_process="shared")
    for task in start_two:
        assert "System.exit was called by hostile.HostileConnector$HostileTask.poll" in wait_for_end(task)


def test_a_full_heap_ends_all_with_the_remedy(start: Start, start_two: tuple[JavaSourceTask, JavaSourceTask]) -> None:
    start("memory", java_process="shared")
    for task in start_two:
        assert "ran out of memory and ended. Raise -Xmx in the worker's java.shared.options" in wait_for_end(task)


@pytest.mark.slow
def test_a_task_that_does_not_stop_ends_all(start: Start, monkeypatch: pytest.MonkeyPatch, plugins: Path) -> None:
    """Its next attempt finds its source free."""
    monkeypatch.setattr(processes, "_STOP_SECONDS", 1)
    monkeypatch.setattr(java_task, "_STOP_SECONDS", 0.5)
    neighbour, hanging = (start(each, name=each, java_process="shared") for each in ("wait", "hang"))
    eventually(lambda: channel(hanging).polling_ms > 0, 30, "its poll")
    hanging.stop()
    assert "hang-0 did not stop within 1 s, so the process ends" in wait_for_end(neighbour)


@pytest.mark.slow
def test_a_frozen_jvm_is_killed_by_its_tasks(
    start_two: tuple[JavaSourceTask, JavaSourceTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = start_two
    monkeypatch.setattr(java_task, "SILENT_SECONDS", 4.0)  # in place of 30
    os.kill(channel(one).pid, signal.SIGSTOP)
    assert "did not respond for 4 s and was killed" in wait_for_end(one)
    assert "did not respond for 4 s and was killed" in wait_for_end(two), "its log says so"


@pytest.mark.slow
def test_a_new_task_replaces_a_frozen_jvm(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    first = start("wait", java_process="shared")
    frozen = channel(first).pid
    os.kill(frozen, signal.SIGSTOP)
    monkeypatch.setattr(processes, "_ANSWER_SECONDS", 1.0)
    second = start("wait", java_process="shared")
    assert channel(second).pid != frozen
    eventually(lambda: not process_exists(frozen), 10, "the end of the frozen JVM")


@pytest.mark.thorough
def test_other_options_take_another_jvm(start: Start, plugins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = start("wait", java_process="shared")
    monkeypatch.setattr(runtime, "_current", [runtime_of(plugins, java_shared_options="-Xmx65m")])
    assert channel(start("wait", java_process="shared")).pid != channel(task).pid


def test_a_jvm_that_cannot_start_says_why(start: Start, plugins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_current", [runtime_of(plugins, java_shared_options="-Xmx1x")])
    with pytest.raises(JavaEnded, match="Invalid maximum heap size: -Xmx1x"):
        start("wait", java_process="shared")


def test_a_folder_that_others_may_enter_is_refused(start: Start, shared_folder: Path) -> None:
    (shared_folder / f"ringfence-java-{os.getuid()}").mkdir(mode=0o755)
    with pytest.raises(ConnectorError, match="other users may enter it: remove it, or set TMPDIR"):
        start("wait", java_process="shared")


def test_a_folder_with_a_long_path_is_refused(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / ("long" * 25)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with pytest.raises(ConnectorError, match="too long for a Unix socket: set TMPDIR"):
        start("wait", java_process="shared")
