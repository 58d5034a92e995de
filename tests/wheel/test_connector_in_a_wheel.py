"""A built-in connector is a plugin like others: moved to a wheel of its own, it passes its tests."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.up import environment
from tests.support.wheels import make_wheel
from tests.wheel.installed import ROOT, install_platform, install_wheel, run

BUILT_IN = "ringfence.connectors.builtin.postgres"
OWN = "postgres_source"
FOLDER = ROOT / "connectors" / "builtin" / "postgres"
ENTRY_POINTS = f"""[ringfence.connectors]
PostgresSource = {OWN}.connector:PostgresSourceConnector

[ringfence.features]
PostgresSource = {OWN}.features:FEATURES
"""
CASES = (
    "tests/postgres/test_first_start.py",
    "tests/postgres/test_json_records.py",
    "tests/postgres/test_records.py",
    "tests/postgres/test_snapshot.py",
    "tests/postgres/test_stream.py",
    "tests/postgres/test_transactions.py",
    "tests/postgres/test_values.py",
    "tests/web/test_connector_snapshots.py",
)
_SECONDS = 800


def leave_out(source: Path) -> None:
    """Take the connector and its entry points out of the tree."""
    shutil.rmtree(source / FOLDER.relative_to(ROOT))
    project = source / "pyproject.toml"
    project.write_text(re.sub(rf"^PostgresSource = .*{re.escape(BUILT_IN)}.*\n", "", project.read_text(), flags=re.M))


def moved(path: Path) -> str:
    return path.read_text().replace(BUILT_IN, OWN)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the platform, without the connector."""
    return install_platform(tmp_path_factory.mktemp("platform"), leave_out, compiled=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The connector in a wheel, as anybody might have published it."""
    files = {
        f"{OWN}/{path.relative_to(FOLDER)}": moved(path)
        for path in sorted(FOLDER.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    return make_wheel(tmp_path_factory.mktemp("connector"), "postgres-source", "1.0", files, entry_points=ENTRY_POINTS)


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    """A folder with the tests, which import the connector from its new place."""
    for name in ("benchmarks", "tests", "tools"):  # tests import from all of them
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (tmp_path / "tests").rglob("*.py"):
        if BUILT_IN in path.read_text():
            path.write_text(moved(path))
    shutil.copy2(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


LIST = """
from importlib.metadata import entry_points
from ringfence.connectors.sdk.features import features_of
print(*(each.value for each in entry_points(group="ringfence.connectors", name="PostgresSource")))
print(features_of("PostgresSource").snapshots is not None)
"""


@pytest.mark.timeout(_SECONDS + 200)
def test_it_passes_its_tests_as_somebody_elses_wheel(python: Path, wheel: Path, tests: Path) -> None:
    assert run(python, "-c", LIST, cwd=tests).split() == ["False"], "the platform still has the connector"
    install_wheel(python, wheel)
    assert run(python, "-c", LIST, cwd=tests).split() == [f"{OWN}.connector:PostgresSourceConnector", "True"]
    command = [python, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *CASES]
    done = subprocess.run(
        [*map(str, command), "-m", "not slow and not thorough"],
        cwd=tests,
        env=environment({}),
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-4000:]
