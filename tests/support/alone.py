"""Tests that run alone, each in a process of its own, after those that run beside each other.

- Those with the mark `alone` always do.
- With `--retry-alone LIST` those that failed do so, too. One that passes then is unsteady: it counts as passed, the run
  shows what both attempts printed, and LIST gets a line. One that fails again has failed. Where more than a few fail
  none is run again: that is no chance.

A run in one process is not changed by any of this.
"""

import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

MOST = 10
"""Tests that are run again."""
_SECONDS = 1800.0
"""A test has a time limit of its own, far below this; this one is for a process that cannot even keep to that."""
_MARKED = "alone"
_LINES = 150
"""That are shown of each: why an attempt failed, and what it printed."""


@dataclass
class Attempt:
    """A test's run in a process of its own."""

    reports: list[pytest.TestReport]
    exit_code: int
    output: str

    @property
    def passed(self) -> bool:
        return self.exit_code == 0 and any(each.when == "call" and each.passed for each in self.reports)


@dataclass
class Unsteady:
    nodeid: str
    before: int
    """How often the list named it already."""
    failures: list[pytest.TestReport]
    attempt: Attempt


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("alone")
    group.addoption("--retry-alone", metavar="LIST", help="run what fails beside others once more, alone; LIST is kept")
    group.addoption("--write-reports", metavar="FILE", help="write each report as a line of JSON")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(LeaveOut(config), "alone-worker")
    elif config.getoption("dist", "no") != "no":
        config.pluginmanager.register(Afterwards(config), "alone-afterwards")
    elif path := config.getoption("write_reports"):
        config.pluginmanager.register(Writer(config, Path(path)), "alone-writer")


class LeaveOut:
    """In a process that runs tests beside others: it names those that are to run alone."""

    def __init__(self, config: pytest.Config) -> None:
        self._output: dict[str, Any] = config.workeroutput  # type: ignore[attr-defined]  # added by xdist

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Behind all that leave tests out."""
        left_out = [item for item in items if item.get_closest_marker("alone")]
        if left_out:
            self._output[_MARKED] = [item.nodeid for item in left_out]
            items[:] = [item for item in items if item not in left_out]
            config.hook.pytest_deselected(items=left_out)


class Writer:
    """In the process of one test."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self._config = config
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._path.open("a") as file:
            file.write(json.dumps(data, default=str) + "\n")


class Afterwards:
    """In the process that started the others."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        path = config.getoption("retry_alone")
        self._list = config.rootpath / path if path else None
        self._reported: set[str] = set()
        self._failures: dict[str, list[pytest.TestReport]] = {}
        self._marked: dict[str, None] = {}
        self._unsteady: list[Unsteady] = []

    @property
    def _terminal(self) -> pytest.TerminalReporter:
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        assert isinstance(reporter, pytest.TerminalReporter)
        return reporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reported.add(report.nodeid)
        if report.failed:
            self._failures.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._marked |= dict.fromkeys(getattr(node, "workeroutput", {}).get(_MARKED, ()))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        result = yield
        self._require_all_reported()
        failed = dict(self._failures)
        for nodeid in self._marked:
            self._run_marked(nodeid)
        if self._list is not None and failed:
            self._retry(session, failed, self._list)
        return result

    def _require_all_reported(self) -> None:
        """A process that crashed may not take tests with it."""
        scheduler = self._config.pluginmanager.getplugin("dsession").sched
        missing = [each for each in scheduler.collection or () if each not in self._reported]
        if missing:
            raise pytest.Session.Interrupted(f"{len(missing)} tests did not run: {', '.join(missing[:10])}")

    def _run_marked(self, nodeid: str) -> None:
        attempt = run_alone(nodeid, self._config)
        reports = attempt.reports
        if attempt.exit_code != 0 and not any(each.failed for each in reports):
            text = f"its process ended with {attempt.exit_code}\n{attempt.output}"
            reports = [pytest.TestReport(nodeid, (nodeid.partition("::")[0], None, nodeid), {}, "failed", text, "call")]
        self._tell(reports)

    def _tell(self, reports: Iterable[pytest.TestReport]) -> None:
        for report in reports:
            self._config.hook.pytest_runtest_logreport(report=report)

    def _retry(self, session: pytest.Session, failed: dict[str, list[pytest.TestReport]], kept: Path) -> None:
        if len(failed) > MOST:
            self._terminal.write_line(f"\n{len(failed)} tests failed, more than {MOST}: none of them is run again")
            return
        for nodeid, failures in failed.items():
            self._terminal.write_line(f"\nonce more, alone: {nodeid}")
            attempt = run_alone(nodeid, self._config)
            if not attempt.passed:
                failures[0].sections.append(("once more, alone: failed again", attempt.output))
                continue
            self._forget(nodeid)
            session.testsfailed -= len(failures)
            self._tell(attempt.reports)
            self._unsteady.append(Unsteady(nodeid, append_to(kept, nodeid), failures, attempt))

    def _forget(self, nodeid: str) -> None:
        stats = self._terminal.stats
        for category, reports in list(stats.items()):
            stats[category] = [
                each for each in reports if not (isinstance(each, pytest.TestReport) and each.nodeid == nodeid)
            ]
            if not stats[category]:
                del stats[category]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._unsteady:
            return
        terminalreporter.section("unsteady", yellow=True)
        for each in self._unsteady:
            terminalreporter.write_sep("_", each.nodeid)
            for failure in each.failures:
                terminalreporter.write_line(f"Beside other tests, {failure.when}:")
                # Each cut by itself: a long log may not push out why the test failed.
                terminalreporter.write_line(last_lines(failure.longreprtext))
                terminalreporter.write_line(last_lines(shown_sections(failure)))
            terminalreporter.write_line("Alone, passed:")
            terminalreporter.write_line(each.attempt.output)
        terminalreporter.section("to the list of unsteady tests", yellow=True)
        terminalreporter.write_line(f"Commit these lines of {self._list}:")
        for each in self._unsteady:
            terminalreporter.write_line(line_of(each.nodeid))
        for each in self._unsteady:
            if each.before:
                terminalreporter.write_line(
                    f"UNSTEADY {each.before + 1} TIMES: {each.nodeid}. Mend it, or mark it `alone`", red=True, bold=True
                )


def shown_sections(report: pytest.TestReport) -> str:
    return "\n".join(f"--- {title}\n{text}" for title, text in report.sections)


def last_lines(text: str) -> str:
    lines = text.rstrip().splitlines()
    return "\n".join(lines if len(lines) <= _LINES else [f"({len(lines) - _LINES} lines before)", *lines[-_LINES:]])


def line_of(nodeid: str) -> str:
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d} {nodeid}"


def read_list(path: Path) -> list[str]:
    """The tests that the list names, once for each time."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.partition(" ")[2] for line in lines if line and not line.startswith("#")]


def append_to(path: Path, nodeid: str) -> int:
    """How often the list named the test before."""
    before = read_list(path).count(nodeid)
    with path.open("a") as file:
        file.write(line_of(nodeid) + "\n")
    return before


def run_alone(nodeid: str, config: pytest.Config) -> Attempt:
    """In a process of its own, with brokers of its own."""
    with tempfile.TemporaryDirectory(prefix="ringfence-test-alone-") as folder:
        output, reports = Path(folder, "output"), Path(folder, "reports")
        # Not a pipe: what the test has started, and leaves behind if it crashes, would keep it open.
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", nodeid, "--numprocesses=0", "-rP", f"--write-reports={reports}"],
                cwd=config.rootpath,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                exit_code = process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                exit_code = process.wait()
        lines = reports.read_text().splitlines() if reports.exists() else []
        return Attempt(
            [config.hook.pytest_report_from_serializable(config=config, data=json.loads(line)) for line in lines],
            exit_code,
            last_lines(output.read_text(errors="replace")),
        )
