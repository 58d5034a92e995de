"""A test process that crashes or hangs ends the run at once, and the run says in which test.

Left to itself pytest-xdist starts another process and gives it the same test again, or waits for ever; and a timeout
that is kept by a thread of the process itself does not help where C code holds the interpreter. So:

- each process that runs tests has a watchdog outside of the interpreter (`faulthandler`): a test that outlives its time
  limit ends its process, with the stacks of all threads
- where there are several processes, the one that started them watches the others: one that does not even do that is
  told to abort, which writes its stacks, too, and is killed
- as soon as one has crashed, the run is interrupted; its last test is counted as failed. Where failed tests are run
  again (`tests.support.alone`) another process goes on with the rest instead

To use it: `-p tests.support.crashes`.
"""

import faulthandler
import json
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

SPARE_SECONDS = "RINGFENCE_TEST_SPARE_SECONDS"
_SPARE_SECONDS = 20.0
_ABORT_SECONDS = 5.0
_FOLDER = "crash_watch_folder"
_NO_STACK = (
    "Where no stacks stand above, it was killed from outside, or it crashed in a thread that blocks signals, as "
    "librdkafka's do: a core file shows that (ulimit -c unlimited)"
)


def _spare() -> float:
    return float(os.environ.get(SPARE_SECONDS, _SPARE_SECONDS))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(TimeLimit(config), "time-limit")
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Watch(config), "crash-watch")


class TimeLimit:
    """In a process that runs tests: ends it where a test outlives its time limit by far, and says which test runs."""

    def __init__(self, config: pytest.Config) -> None:
        given: Mapping[str, Any] = getattr(config, "workerinput", {})
        self._said = Path(given[_FOLDER], given["workerid"]) if _FOLDER in given else None
        self._stderr = os.dup(2)  # the real one: pytest puts a file in its place while a test runs

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: Any) -> bool | None:
        """pytest-timeout's hook, called as a test's time begins. None: pytest-timeout sets its own timer, too.

        In one process of several it must not: it would end the process, and its stacks would reach nobody.
        """
        limit = float(settings.timeout)
        several = self._said is not None
        faulthandler.dump_traceback_later(limit if several else limit + _spare(), exit=True, file=self._stderr)
        self._say(item.nodeid, limit + _spare())
        return True if several else None

    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_cancel_timer(self, item: pytest.Item) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._say(item.nodeid, None)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Iterator[None]:
        """A process that has finished waits for the others, without a limit."""
        self._say("the end of the test process", 3 * _spare())
        try:
            return (yield)
        finally:
            self._say("nothing any more", None)

    def _say(self, what: str, seconds: float | None) -> None:
        """What runs, and until when it may, by the clock that all processes share."""
        if self._said is None:
            return
        until = None if seconds is None else time.monotonic() + seconds
        scratch = self._said.with_suffix(".new")
        scratch.write_text(json.dumps({"pid": os.getpid(), "what": what, "until": until}))
        scratch.replace(self._said)


def _cause_of_end(said: Path) -> str:
    """Its exit status is only looked at: it stays for xdist, which waits for the process, too."""
    try:
        pid = json.loads(said.read_text())["pid"]
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        ended = None
    if ended is None:
        return "has ended; how is not known"
    if ended.si_code == os.CLD_EXITED:
        return f"has exited with code {ended.si_status}"
    return f"was ended by {signal.Signals(ended.si_status).name}. {_NO_STACK}"


class Watch:
    """In the process that started the others."""

    def __init__(self, config: pytest.Config) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ringfence-test-watch-"))
        self._over = threading.Event()
        self._goes_on = bool(config.getoption("retry_alone", None))
        threading.Thread(target=self._watch, name="crash-watch", daemon=True).start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[_FOLDER] = str(self._folder)

    def pytest_unconfigure(self) -> None:
        self._over.set()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _watch(self) -> None:
        while not self._over.wait(1.0):
            for said in self._folder.glob("gw*[0-9]"):
                state = json.loads(said.read_text())
                if state["until"] is not None and time.monotonic() > state["until"]:
                    said.unlink()
                    self._end(state["pid"], state["what"])

    def _end(self, pid: int, what: str) -> None:
        os.write(2, f"\nThe test process {pid} hangs in {what}; it is ended\n".encode())
        try:
            os.kill(pid, signal.SIGABRT)  # faulthandler writes the stacks
            self._over.wait(_ABORT_SECONDS)
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """A process is gone. Where it was running a test, xdist reports that one next (below)."""
        if error is None or error == "keyboard-interrupt":
            return
        said = self._folder / node.gateway.id
        if said.exists():  # else it was hanging, which has been told
            os.write(2, f"\nThe test process {node.gateway.id} {_cause_of_end(said)}\n".encode())
            said.unlink(missing_ok=True)  # its pid may become another's
        scheduler = node.config.pluginmanager.getplugin("dsession").sched
        work = scheduler.assigned_work.get(node, {}) if scheduler is not None else {}
        if not any(done is False for unit in work.values() for done in unit.values()):
            raise pytest.Session.Interrupted(f"the test process {node.gateway.id} crashed outside of a test")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        crashed = str(report.when) == "???"  # xdist's word for a test whose process crashed
        if crashed and not self._goes_on:
            raise pytest.Session.Interrupted(f"{report.longrepr}: the run ends here")
