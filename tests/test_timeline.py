"""The end of a run in several processes says which of them had to wait for another (`tests.support.timeline`)."""

from types import SimpleNamespace

import pytest

from tests.support.pure import ROOT
from tests.support.timeline import Timeline


def report_of(nodeid: str, process: str, seconds: float) -> pytest.TestReport:
    report = pytest.TestReport(nodeid, (nodeid, None, nodeid), {}, "passed", None, "call", duration=seconds)
    report.node = SimpleNamespace(gateway=SimpleNamespace(id=process))  # type: ignore[attr-defined]  # as xdist does
    return report


def test_processes_and_groups_are_listed_with_their_seconds() -> None:
    now = [0.0]
    timeline = Timeline(ROOT, lambda: now[0])
    for at, nodeid, process, seconds in (
        (5.0, "tests/fencing/test_ids.py::test_a", "gw1", 5.0),
        (60.0, "tests/e2e/test_kills.py::test_b", "gw0", 60.0),
        (90.0, "tests/e2e/browser/test_live.py::test_c", "gw0", 30.0),
    ):
        now[0] = at
        timeline.pytest_runtest_logreport(report_of(nodeid, process, seconds))
    assert list(timeline.lines()) == [
        "gw0: 90 s of tests, the last one 0 s before the end of all",
        "gw1: 5 s of tests, the last one 85 s before the end of all",
        "    90 s  tests/e2e/",
        "     5 s  tests/fencing/test_ids.py",
    ]
