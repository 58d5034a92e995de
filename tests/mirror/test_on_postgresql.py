"""The tests of the database layer once more, on a real PostgreSQL of their own."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringfence.local.process import free_port
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
LAYER = ["tests/mirror", *(f"tests/api/test_{part}.py" for part in ("audit", "own_config", "own_offsets", "own_fence"))]
PROGRAMS = ("initdb", "postgres", "pg_isready", "createdb")


def program(name: str) -> str | None:
    """On the PATH, or where Debian keeps them."""
    kept = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(kept[-1]) if kept else None)


@pytest.fixture
def postgres() -> Iterator[str]:
    """The URL of an empty database."""
    if missing := [name for name in PROGRAMS if program(name) is None]:
        pytest.skip(f"PostgreSQL is not on this machine ({', '.join(missing)}): apt-get install postgresql")
    # It refuses to run as root.
    other: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    root, port = Path(tempfile.mkdtemp(prefix="ringfence-postgres-")), str(free_port())
    if other:
        shutil.chown(root, other["user"], other["group"])
    where = ["-h", "127.0.0.1", "-p", port, "-U", "ringfence"]

    def run(name: str, *arguments: str) -> int:
        asked = [str(program(name)), *arguments]
        return subprocess.run(asked, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **other).returncode

    server = None
    try:
        assert run("initdb", "-D", str(root / "data"), "-U", "ringfence", "-A", "trust", "-E", "UTF8", "--no-sync") == 0
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        options = [text for key, value in settings.items() for text in ("-c", f"{key}={value}")]
        asked = [str(program("postgres")), "-D", str(root / "data"), "-p", port, *options]
        with (root / "log").open("wb") as log:
            server = subprocess.Popen(asked, cwd=root, stdout=log, stderr=log, **other)
        eventually(lambda: run("pg_isready", *where) == 0, 60, lambda: (root / "log").read_text(), pause=0.2)
        assert run("createdb", *where, "ringfence") == 0
        yield f"postgres://ringfence@127.0.0.1:{port}/ringfence"
    finally:
        if server is not None:
            server.terminate()
            server.wait(60)
        shutil.rmtree(root)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_database_layer_works_on_postgresql(postgres: str) -> None:
    asked = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *LAYER]
    told = subprocess.run(
        asked, cwd=ROOT, env={**os.environ, "RINGFENCE_TEST_DATABASE_URL": postgres}, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout[-4000:] + told.stderr[-2000:]
