"""Tests that fail beside others run once more, alone, and so do marked ones (`tests.support.alone`)."""

import os
from pathlib import Path

import pytest

from tests.support.alone import MOST, read_list

NEEDS = "processes of pytest"
pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[1]

CONFTEST = """
from tests.support.parallel import ByFile
pytest_plugins = ["tests.support.alone", "tests.support.crashes"]

def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log)
"""
INI = """
[pytest]
timeout = 60
timeout_method = thread
addopts = -ra -p xdist -p pytest_timeout -p no:cacheprovider
markers =
    alone: in a process of its own
"""
BESIDE = "import os, pytest\nBESIDE = 'PYTEST_XDIST_WORKER' in os.environ\n"
STEADY = "".join(f"def test_steady_{n}(): pass\n" for n in range(4))
UNSTEADY = f"{BESIDE}def test_unsteady():\n    print('said by the attempt')\n    assert not BESIDE, 'it is crowded'\n"
LONG = f"{BESIDE}def test_long():\n    print('a line of a log\\n' * 500)\n    assert not BESIDE, 'it is crowded'\n"
UNSTEADY_END = f"""{BESIDE}
@pytest.fixture
def crowd():
    yield
    assert not BESIDE, 'left something'
def test_unsteady_end(crowd): pass
"""
CRASH = f"{BESIDE}def test_crash():\n    if BESIDE: os._exit(3)\n{STEADY}"
ALONE = f"{BESIDE}@pytest.mark.alone\ndef test_alone(): assert not BESIDE\n"
BROKEN = f"{BESIDE}def test_broken(): assert False, 'beside' if BESIDE else 'by itself'\n"


@pytest.fixture
def run_beside(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> "RunBeside":
    for name in [each for each in os.environ if each.startswith("PYTEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # twice as quick
    pytester.makeconftest(CONFTEST)
    pytester.makeini(INI)
    return RunBeside(pytester)


class RunBeside:
    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester
        self.list = pytester.path / "list.txt"

    def __call__(self, **files: str) -> pytest.RunResult:
        """In two processes, with tests that pass beside them."""
        tests = {f"test_{name}": text for name, text in {"a": STEADY, **files, "z": STEADY}.items()}
        self._pytester.makepyfile(**tests)
        return self._pytester.runpytest_subprocess("-n2", "--no-loadscope-reorder", "--retry-alone=list.txt")


def test_a_test_that_passes_alone_leaves_the_run_green_and_is_listed(run_beside: RunBeside) -> None:
    run_beside.list.write_text("# comment\n2026-01-01 test_u.py::test_unsteady\n")
    result = run_beside(u=UNSTEADY, v=UNSTEADY_END, alone=ALONE)
    result.assert_outcomes(passed=11)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "*= unsteady =*",
            "*_ test_u.py::test_unsteady _*",
            "*it is crowded*",
            "*said by the attempt*",
            "Alone, passed:",
            "*said by the attempt*",
            "*_ test_v.py::test_unsteady_end _*",
            "Beside other tests, teardown:",
            "*left something*",
            "* test_v.py::test_unsteady_end",
            "UNSTEADY 2 TIMES: test_u.py::test_unsteady. Mend it*",
            "*= 11 passed in *",
        ]
    )
    assert "11 passed" in result.outlines[-1]
    assert read_list(run_beside.list) == [
        *("test_u.py::test_unsteady", "test_u.py::test_unsteady"),
        "test_v.py::test_unsteady_end",
    ]


def test_why_a_test_failed_is_shown_however_much_was_logged(run_beside: RunBeside) -> None:
    result = run_beside(u=LONG)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["Beside other tests, call:", "*AssertionError: it is crowded*", "(* lines before)", "a line of a log"]
    )


def test_a_test_whose_process_crashes_is_run_again_and_the_rest_of_its_file_too(run_beside: RunBeside) -> None:
    result = run_beside(crash=CRASH)
    result.assert_outcomes(passed=13)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*= unsteady =*", "*crashed while running 'test_crash.py::test_crash'*"])
    assert read_list(run_beside.list) == ["test_crash.py::test_crash"]


def test_a_test_that_fails_twice_fails_the_run(run_beside: RunBeside) -> None:
    result = run_beside(b=BROKEN, u=UNSTEADY)
    result.assert_outcomes(passed=9, failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*AssertionError: beside*", "*once more, alone: failed again*", "*by itself*"])
    assert read_list(run_beside.list) == ["test_u.py::test_unsteady"]


def test_a_marked_test_that_fails_or_crashes_fails_the_run(run_beside: RunBeside) -> None:
    marked = f"{BESIDE}pytestmark = pytest.mark.alone\ndef test_crash(): os._exit(3)\n{BROKEN}"
    result = run_beside(b=marked)
    result.assert_outcomes(passed=8, failed=2)
    assert result.ret == 1
    assert read_list(run_beside.list) == []


def test_more_than_a_few_failures_are_not_run_again(run_beside: RunBeside) -> None:
    result = run_beside(b=f"{BESIDE}" + "".join(f"def test_{n}(): assert not BESIDE\n" for n in range(MOST + 1)))
    result.assert_outcomes(passed=8, failed=MOST + 1)
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"{MOST + 1} tests failed, more than {MOST}: none of them is run again"])


def test_no_test_is_on_the_list_of_unsteady_ones_twice() -> None:
    names = read_list(ROOT / "tests" / "unsteady.txt")
    again = sorted({name for name in names if names.count(name) > 1})
    assert again == [], "mend it, or mark it `alone`; then delete its lines (CONTRIBUTING.md)"
