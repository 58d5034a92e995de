"""Real web processes on a database of their own, without Redis or workers: enough to ask who is let in."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import httpx

from ringfence.local.ports import free_port
from tests.support.waiting import eventually

_READY_SECONDS = 60.0
_DATABASE = "web.sqlite3"
_directory = tempfile.TemporaryDirectory(prefix="ringfence-test-web-")


@dataclass(frozen=True, slots=True)
class Web:
    """A web process that answers at `address`."""

    address: str
    pid: int

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def get(self, path: str = "/connectors", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.get(f"http://{self.address}{path}", headers=named, timeout=30)


def clean_environment(root: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's own without what other tests have set; a database in `root`, a Redis that is not there."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("RINGFENCE_", "CONNECT_"))}
    ours = {
        "RINGFENCE_DATABASE_URL": f"sqlite:///{root / _DATABASE}",
        "RINGFENCE_REDIS_URL": f"redis://127.0.0.1:{free_port()}/0",
        "RINGFENCE_SECRET_KEY": "only for tests",
        "DJANGO_SETTINGS_MODULE": "ringfence.settings",
    }
    return {**clean, **ours, **(more or {})}


def migrate(root: Path) -> None:
    """Make the database of `clean_environment(root)`, a copy of one that is made once."""
    shutil.copyfile(_migrated_database(), root / _DATABASE)


@cache
def _migrated_database() -> Path:
    root = Path(_directory.name)
    command = [sys.executable, "-m", "django", "migrate", "--no-input", "--skip-checks", "-v", "0"]
    subprocess.run(command, env=clean_environment(root), check=True, timeout=120)
    return root / _DATABASE


@contextlib.contextmanager
def serving(root: Path, command: list[str], more: Mapping[str, str] | None = None, port: int = 0) -> Iterator[Web]:
    """`command` and `more` hold `PORT` and `ADDRESS` where they belong; the process is gone after the block."""
    port = port or free_port()
    address = f"127.0.0.1:{port}"
    filled = [word.replace("ADDRESS", address).replace("PORT", str(port)) for word in command]
    given = {name: value.replace("ADDRESS", address) for name, value in (more or {}).items()}
    log = root / f"web-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *filled], env=clean_environment(root, given), stdout=output, stderr=output, cwd=root
        )
    try:

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"http://{address}/ui/login", timeout=10).status_code in (200, 400)
            return False

        eventually(answers, _READY_SECONDS, lambda: f"an answer: {log.read_text()}", pause=0.1)
        yield Web(address, process.pid)
    finally:
        process.kill()
        process.wait()
