"""A report counts for the code that was checked, and for no other."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module, invalidate_caches
from pathlib import Path

import pytest

from ringfence.connectors.compatibility import FILE, CheckResult, read_report, write_report
from ringfence.testing.author_commands import report_on
from ringfence.testing.checks import SUITE_VERSION
from ringfence.testing.scenario import Scenario

PASSED = CheckResult("kills", "passed", "")
SKIPPED = CheckResult("tasks", "skipped", "one task only")
FAILED = CheckResult("reset", "failed", "12 missing")


@pytest.fixture
def package(tmp_path: Path) -> Iterator[type]:
    """A class in a package of its own."""
    folder = tmp_path / "reported"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "connector.py").write_text("class Connector:\n    version = '1.0'\n")
    sys.path.insert(0, str(tmp_path))
    invalidate_caches()
    yield import_module("reported.connector").Connector
    sys.path.remove(str(tmp_path))
    for name in ("reported", "reported.connector"):
        del sys.modules[name]


def report(cls: type, *results: CheckResult) -> None:
    scenario: type[Scenario] = type("Reported", (), {"connector": cls})
    write_report(cls, report_on(scenario, results, lambda: datetime(2026, 11, 1, tzinfo=UTC)))


def test_a_report_is_read_back(package: type) -> None:
    report(package, PASSED, SKIPPED)
    found = read_report(package)
    assert found is not None
    assert found.passed
    assert found.summary() == {"suite": SUITE_VERSION, "day": "2026-11-01", "passed": ["kills"], "skipped": ["tasks"]}


def test_a_changed_file_ends_it(package: type, tmp_path: Path) -> None:
    report(package, PASSED)
    (tmp_path / "reported" / "more.py").write_text("# another file\n")
    assert read_report(package) is None


def test_a_failed_check_is_no_badge(package: type) -> None:
    report(package, PASSED, FAILED)
    found = read_report(package)
    assert found is not None
    assert not found.passed


def test_skipping_everything_is_no_badge(package: type) -> None:
    report(package, SKIPPED)
    found = read_report(package)
    assert found is not None
    assert not found.passed


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"reported.connector.Connector": {"digest": 1}}'])
def test_what_is_no_report_is_none(package: type, tmp_path: Path, text: str) -> None:
    (tmp_path / "reported" / FILE).write_text(text)
    assert read_report(package) is None
