"""Spark's drivers start from the archive of their classes, where one was made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ringfence.local import class_archives

DRIVER = """
import psutil
from pathlib import Path
from ringfence.local.class_archives import use_archive

use_archive()
from ringfence.engine.spark.driver import SparkHost

host = SparkHost(1)
(jvm,) = psutil.Process().children()
print(Path(f"/proc/{jvm.pid}/maps").read_text())
host.end_driver()
assert not jvm.is_running()
"""


def test_what_spark_submit_opts_says_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(class_archives.OPTIONS, "-Dmine=1")
    class_archives.use_archive()
    assert os.environ[class_archives.OPTIONS] == "-Dmine=1"


def test_without_an_archive_nothing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(class_archives.OPTIONS, raising=False)
    class_archives.use_archive()
    assert class_archives.OPTIONS not in os.environ


@pytest.mark.slow
def test_a_driver_starts_from_the_archive_that_the_setup_makes(tmp_path: Path) -> None:
    cache = {key: value for key, value in os.environ.items() if key != class_archives.OPTIONS}
    cache["XDG_CACHE_HOME"] = str(tmp_path)
    subprocess.run([sys.executable, "-m", "ringfence.local.class_archives"], env=cache, check=True, timeout=120)
    (archive,) = (tmp_path / "ringfence").glob("spark-*.jsa")
    told = subprocess.run([sys.executable, "-c", DRIVER], env=cache, check=True, timeout=120, capture_output=True)
    assert str(archive) in told.stdout.decode()
