"""What a run in several processes says at its end: how long each of them had tests, and the groups that took longest.

A process that ended long before the others had nothing left to take: the last groups are too long, or begin too late.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.parallel import scope_of

_MOST_GROUPS = 12


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Timeline(config.rootpath), "timeline")


class Timeline:
    """In the process that started the others."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._groups: dict[str, float] = defaultdict(float)
        self._processes: dict[str, float] = defaultdict(float)
        self._ends: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        node = getattr(report, "node", None)  # xdist's; none of a test that runs alone
        if node is None:
            return
        self._groups[scope_of(report.nodeid, self._root)] += report.duration
        self._processes[node.gateway.id] += report.duration
        self._ends[node.gateway.id] = self._clock()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._ends:
            terminalreporter.section("processes and groups of tests")
            for line in self.lines():
                terminalreporter.write_line(line)

    def lines(self) -> Iterator[str]:
        """A line for each process, in their order, and one for each of the longest groups."""
        end = max(self._ends.values())
        for name, seconds in sorted(self._processes.items()):
            idle = end - self._ends[name]
            yield f"{name}: {seconds:.0f} s of tests, the last one {idle:.0f} s before the end of all"
        longest = sorted(self._groups.items(), key=lambda each: -each[1])
        for group, seconds in longest[:_MOST_GROUPS]:
            yield f"{seconds:6.0f} s  {group}"
