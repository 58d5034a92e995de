"""Setting up takes minutes the first time: it shows what it fetches and how large that is, and the sizes are true."""

import base64
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ringfence.local.jars import KAFKA_MEGABYTES, KAFKA_SERVER, is_kept, resolve
from ringfence.local.ports import free_port
from tests.e2e.up import environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "scratch"
version = "1"
"""
BACKEND = """
import shutil

def build_editable(folder, config_settings=None, metadata_directory=None):
    return shutil.copy("scratch-1-py3-none-any.whl", folder).rpartition("/")[2]
"""


def make_wheel(name: str, more: bytes = b"", needs: str = "") -> bytes:
    """A package without code; `more`: what makes it large."""
    info = f"{name}-1.dist-info"
    files = {
        f"{name}.bin": more,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\nProvides-Extra: dev\n{needs}".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}"
        for path, content in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return made.getvalue()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A package index of this machine's own, with one package of two megabytes."""
    folder = tmp_path / "index" / "simple" / "large"
    folder.mkdir(parents=True)
    (folder / "large-1-py3-none-any.whl").write_bytes(make_wheel("large", os.urandom(2_000_000)))
    (folder / "index.html").write_text('<a href="large-1-py3-none-any.whl">large-1-py3-none-any.whl</a>')
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "index"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/simple/"
    server.shutdown()
    server.server_close()


def test_make_setup_names_each_download_with_its_size(index: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(ROOT / "Makefile", project)
    (project / "constraints.txt").touch()
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "backend.py").write_text(BACKEND)
    (project / "scratch-1-py3-none-any.whl").write_bytes(
        make_wheel("scratch", needs='Requires-Dist: large; extra == "dev"\n')
    )
    settings = environment({"PIP_INDEX_URL": index, "PIP_NO_CACHE_DIR": "1", "PIP_CONFIG_FILE": os.devnull})
    for name in ("PIP_FIND_LINKS", "PIP_QUIET", "MAKEFLAGS"):
        settings.pop(name, None)
    command = ["make", f"PYTHON={sys.executable}", ".venv/.set-up"]
    done = subprocess.run(command, cwd=project, env=settings, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Installing Python packages into \.venv, [\d.]+ GB on disk.*takes a few minutes", done.stdout)
    assert re.search(r"Downloading \S*large-1-py3-none-any\.whl \(2\.0 MB\)", done.stdout), done.stdout


def test_up_says_what_it_fetches_before_it_does(tmp_path: Path) -> None:
    """The mirror is not there: the line comes first, and the end says what to look at."""
    nowhere = f"http://127.0.0.1:{free_port()}/"
    settings = environment({"XDG_CACHE_HOME": str(tmp_path / "cache"), "RINGFENCE_MAVEN_URL": nowhere})
    command = [sys.executable, "-m", "ringfence.cli", "up", "--data", str(tmp_path / "data")]
    command += ["--http", f"127.0.0.1:{free_port()}"]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=240, check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert f"fetching Kafka's jars from Maven Central ({KAFKA_MEGABYTES} MB, once)" in said
    assert "RINGFENCE_MAVEN_URL" in said


@pytest.mark.skipif(not is_kept("kafka", KAFKA_SERVER), reason="Kafka's jars were not fetched yet")
def test_the_size_of_kafka_is_true() -> None:
    found = sum(file.stat().st_size for file in resolve("kafka", KAFKA_SERVER).iterdir()) / 1e6
    assert found == pytest.approx(KAFKA_MEGABYTES, rel=0.1)


@pytest.mark.skipif(not (ROOT / ".venv/.set-up").exists(), reason="this checkout was not made ready by `make setup`")
def test_the_size_of_the_environment_is_true() -> None:
    (told,) = re.findall(r"into \$\(VENV\), ([\d.]+) GB on disk", (ROOT / "Makefile").read_text())
    assert f"({told} GB on disk)" in (ROOT / "README.md").read_text()
    blocks = sum(file.lstat().st_blocks for file in (ROOT / ".venv").rglob("*") if not file.is_symlink())
    assert blocks * 512 / 1e9 == pytest.approx(float(told), rel=0.2)
