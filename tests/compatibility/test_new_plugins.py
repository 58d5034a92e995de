"""`ringfence plugins new` creates a package that works, and `dev` says what is wrong with it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ringfence.cli import main
from ringfence.local.errors import LocalError
from ringfence.testing import CHECKS
from ringfence.testing.author_commands import watch
from ringfence.testing.scaffold import create_package
from tests.support.broker import Broker

_SECONDS = 160
"""For a command that hangs; `verify` takes a minute where the machine does other work, too."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert main(["plugins", "new", "weather-api", "--into", str(tmp_path)]) == 0
    return tmp_path / "weather-api"


def ringfence(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ringfence.cli", "plugins", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)


@pytest.mark.thorough
def test_its_own_tests_pass_with_a_kill(folder: Path, broker: Broker) -> None:
    answer = run_tests(folder, broker)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"4 passed, {len(CHECKS)} deselected in" in answer.stdout


@pytest.mark.thorough
def test_the_kill_finds_a_task_that_begins_again(folder: Path, broker: Broker) -> None:
    task = folder / "src" / "weather_api" / "task.py"
    asked = "self.context.offset_reader.offset"
    assert asked in task.read_text()
    task.write_text(task.read_text().replace(asked, "(lambda _partition: None)"))
    answer = run_tests(folder, broker, "-k", "after_a_kill")
    assert answer.returncode == 1
    assert "too often" in answer.stdout


def run_tests(folder: Path, broker: Broker, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["RINGFENCE_TEST_BOOTSTRAP"] = broker.bootstrap
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False, env=environment
    )


def test_dev_shows_the_first_records(folder: Path) -> None:
    answer = ringfence(folder, "dev", "--once")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert '{"file": "first.txt"} {"lines": 2} -> ' in answer.stdout
    assert "the second line" in answer.stdout


@pytest.mark.thorough
def test_dev_names_the_wrong_setting(folder: Path) -> None:
    example = folder / "example.json"
    example.write_text(example.read_text().replace('"sample"', '"nowhere"'))
    answer = ringfence(folder, "dev", "--once")
    assert answer.returncode == 1
    assert "folder: Folder nowhere does not exist. Create it first." in answer.stdout


@pytest.mark.thorough
def test_dev_shows_the_trace_of_a_mistake(folder: Path) -> None:
    task = folder / "src" / "weather_api" / "task.py"
    task.write_text(task.read_text().replace("sorted(self.folder", "sorted(self.holder"))
    answer = ringfence(folder, "dev", "--once")
    assert answer.returncode == 1
    assert "has no attribute 'holder'" in answer.stdout


def test_dev_looks_again_when_a_file_is_saved(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    looks = 0

    def wait(_seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            example = folder / "example.json"
            example.write_text(example.read_text().replace('"sample"', '"nowhere"'))
        else:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(folder, Path("example.json"), wait=wait)
    first, _, second = capfd.readouterr().out.partition("example.json:")
    assert "the second line" in first
    assert "does not exist" in second


@pytest.mark.parametrize("name", ["", "1st", "a/b", "../x", "class", "ringfence"])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="cannot be"):
        create_package(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(folder: Path) -> None:
    with pytest.raises(LocalError, match="exists already"):
        create_package("WeatherApi", folder.parent)


@pytest.mark.slow
def test_verify_writes_a_report_that_counts(folder: Path) -> None:
    answer = ringfence(folder, "verify")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "passed   kills" in answer.stdout
    assert (folder / "src" / "weather_api" / "exactly_once_report.json").is_file()
