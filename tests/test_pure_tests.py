"""Which tests `make test-pure` runs is found by what they import (`tests.support.pure`)."""

import subprocess
import sys

import pytest

from tests.support.pure import PURE, ROOT, file_starts_programs, starts_programs


@pytest.mark.parametrize(
    "name", ["playwright.sync_api", "pyspark", "tests.support.broker", "tests.e2e.up", "tests.support.database"]
)
def test_a_helper_that_starts_programs_is_known_by_its_imports(name: str) -> None:
    assert starts_programs(name)


@pytest.mark.parametrize("name", ["json", "ringfence.fencing.ids", "tests.support.topics", "tests.support.waiting"])
def test_other_modules_are_free(name: str) -> None:
    assert not starts_programs(name)


@pytest.mark.parametrize("name", ["guarantees/test_source_task", "e2e/test_kills", "scripts/conftest", "api/conftest"])
def test_a_file_that_needs_a_program_or_a_database_is_not_pure(name: str) -> None:
    assert file_starts_programs(ROOT / "tests" / f"{name}.py")


def test_a_pure_run_imports_no_helper_that_starts_programs() -> None:
    """Whatever way they are imported: the run refuses them, and here it says what it has imported."""
    code = (
        f"import os, sys, pytest; os.environ['{PURE}'] = '1'\n"
        "code = pytest.main(['-q', '-p', 'no:cacheprovider', '-p', 'no:xdist', 'tests/fencing/test_ids.py'])\n"
        "print(sorted({'playwright', 'pyspark', 'py4j', 'tests.support.broker', 'tests.e2e.up'} & set(sys.modules)))\n"
        "try: import tests.support.broker\nexcept ImportError as error: print(error)\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-2:] == ["[]", "a pure test imports tests.support.broker, which starts programs"]
