"""A run in several processes prints a dot for ten tests that pass, so that its output fits on a screen."""

import pytest

_TESTS_PER_DOT = 10
_passed = pytest.StashKey[int]()


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(
    report: pytest.TestReport | pytest.CollectReport, config: pytest.Config
) -> tuple[str, str, str] | None:
    """What a test that has passed prints; None for any other report."""
    passed = report.when == "call" and report.passed and not hasattr(report, "wasxfail")
    if not passed or not config.getoption("numprocesses", None):
        return None
    count = config.stash[_passed] = config.stash.get(_passed, 0) + 1
    return "passed", "" if count % _TESTS_PER_DOT else ".", "PASSED"
