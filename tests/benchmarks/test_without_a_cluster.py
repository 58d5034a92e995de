"""The benchmarks that need no cluster still run: nothing else notices when a column or the login changes."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "few",
    [
        ("lists", "--connectors", "20", "--rounds", "1"),
        ("pages", "--connectors", "20", "--pages", "3", "--seconds", "3", "--rounds", "2"),
    ],
    ids=lambda few: few[0],
)
def test_it_runs(few: tuple[str, ...]) -> None:
    """1 says that it ran and a limit was not kept, which a busy machine may do; an error says so on stderr."""
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks", *few], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert "answered" not in run.stderr, run.stderr
    assert "Traceback" not in run.stderr, run.stderr
    assert run.returncode in (0, 1)
    assert "/ui/connectors" in run.stdout or "the page's list" in run.stdout
