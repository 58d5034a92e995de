"""The tests of the database layer once more, on a real PostgreSQL of their own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import new_postgres

ROOT = Path(__file__).resolve().parents[2]
LAYER = ["tests/mirror", *(f"tests/api/test_{part}.py" for part in ("audit", "own_config", "own_offsets", "own_fence"))]


@pytest.fixture
def postgres() -> Iterator[str]:
    """The URL of an empty database."""
    with new_postgres() as server:
        yield server.url


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_database_layer_works_on_postgresql(postgres: str) -> None:
    asked = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *LAYER]
    told = subprocess.run(
        asked, cwd=ROOT, env={**os.environ, "RINGFENCE_TEST_DATABASE_URL": postgres}, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout[-4000:] + told.stderr[-2000:]
