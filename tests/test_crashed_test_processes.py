"""A crashed or hanging test process ends a run, with the test's name (`tests.support.crashes`)."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.cases import mark_cases

NEEDS = "processes of pytest"
ROOT = Path(__file__).parents[1]
LIMIT, SPARE = 2.0, 1.0
# A run of pytest with its processes takes seconds to start on a busy machine; what is shown is that it ends at all.
QUICK = 60.0

CONFTEST = """
from tests.support.parallel import ByFile

def pytest_xdist_make_scheduler(config, log):
    return ByFile(config, log)
"""

# Several files, as it is the rest of the run that xdist waited for.
OTHERS = "import time, pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_other(n):\n    time.sleep(0.1)\n"

CRASHES = {
    "segmentation_fault": "import ctypes; ctypes.string_at(0)",
    "silent_fault": "import ctypes, signal; signal.pthread_sigmask(0, {signal.SIGSEGV}); ctypes.string_at(0)",
    "exit": "import os; os._exit(3)",
    "hang_in_c": "import ctypes; ctypes.PyDLL(None).sleep(600)",
    "stopped": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "hang": "import time; time.sleep(600)",
}
CAUSES = {
    "segmentation_fault": "was ended by SIGSEGV",
    "silent_fault": "was ended by SIGSEGV",
    "exit": "has exited with code 3",
}
FIRST = ("segmentation_fault", "hang_in_c")


def run(
    folder: Path, body: str, *arguments: str, spare: float = SPARE
) -> tuple[subprocess.CompletedProcess[str], float]:
    (folder / "conftest.py").write_text(CONFTEST)
    for name in ("a", "c", "d"):
        (folder / f"test_{name}.py").write_text(OTHERS)
    culprit = f"def test_before(): pass\ndef test_culprit():\n    {body}\ndef test_after(): pass\n"
    (folder / "test_b.py").write_text(culprit)
    (folder / "pytest.ini").write_text(f"[pytest]\ntimeout = {LIMIT}\ntimeout_method = thread\n")
    started = time.monotonic()
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "pytest", "-p", "tests.support.crashes", "-p", "no:valkey", "-p", "no:schemathesis"),
            *("-p", "no:cacheprovider", *arguments),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "RINGFENCE_TEST_SPARE_SECONDS": str(spare), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done, time.monotonic() - started


@pytest.mark.parametrize("how", mark_cases(CRASHES, slow=CRASHES.keys() - set(FIRST), thorough={"hang_in_c"}))
def test_the_run_ends_and_names_the_test(tmp_path: Path, how: str) -> None:
    done, seconds = run(tmp_path, CRASHES[how], "-n", "2", "--no-loadscope-reorder")
    told = done.stdout + done.stderr
    assert done.returncode not in (0, 5), told
    assert "FAILED test_b.py::test_culprit" in done.stdout, told
    assert "crashed while running 'test_b.py::test_culprit'" in done.stdout, told
    if how in CAUSES:
        assert re.search(rf"The test process gw\d {CAUSES[how]}", done.stderr), told
    if how in ("segmentation_fault", "hang_in_c", "hang"):
        assert "in test_culprit" in told, told  # its stack
    assert seconds < QUICK, told


@pytest.mark.slow
def test_one_process_alone_ends_too(tmp_path: Path) -> None:
    """Nobody watches it from outside; the watchdog is outside of the interpreter only."""
    done, seconds = run(tmp_path, CRASHES["hang_in_c"])
    told = done.stdout + done.stderr
    assert done.returncode not in (0, 5), told
    assert 'test_b.py", line 3 in test_culprit' in told, told
    assert seconds < QUICK, told


@pytest.mark.slow
def test_a_process_that_crashes_between_tests_ends_the_run(tmp_path: Path) -> None:
    """Here: as it is to end, when no test of its own is left."""
    (tmp_path / "plugged.py").write_text(
        "import os\ndef pytest_sessionfinish(session):\n    if hasattr(session.config, 'workerinput'): os._exit(4)\n"
    )
    done, seconds = run(tmp_path, "pass", "-n", "2", "-p", "plugged")
    told = done.stdout + done.stderr
    assert done.returncode not in (0, 5), told
    assert "crashed outside of a test" in told, told
    assert seconds < QUICK, told


@pytest.mark.thorough
def test_a_process_that_has_finished_waits_for_the_others(tmp_path: Path) -> None:
    """Its end may take 15 s (three times the spare ones): the others take longer, its end on a busy machine less."""
    body = "import time, pytest\n@pytest.mark.parametrize('n', range(25))\ndef test_long(n):\n    time.sleep(1)\n"
    (tmp_path / "test_long.py").write_text(body)
    chosen = ("--no-loadscope-reorder", "-k", "culprit or long")
    done, _ = run(tmp_path, "import time; time.sleep(1.5)", "-n", "2", *chosen, spare=5.0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hangs in" not in done.stderr
