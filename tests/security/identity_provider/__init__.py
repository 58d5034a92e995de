"""A real OpenID provider, `oidc-provider` of npm, in the version that package-lock.json pins."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.waiting import eventually

HERE = Path(__file__).parent


def install(folder: Path) -> Path:
    """The provider with its packages in that folder. Skips the test where there is no Node, npm or registry."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"There is no {program} on the PATH: apt-get install nodejs npm")
    for name in ("package.json", "package-lock.json", "server.js"):
        shutil.copy(HERE / name, folder)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"npm cannot install oidc-provider: {done.stderr[-500:]}")
    return folder


@contextlib.contextmanager
def provide(folder: Path, port: int, public_url: str, secret: str, people: Path) -> Iterator[str]:
    """The issuer, with keys of its own each time; the process is gone after the block."""
    log = folder / "provider.log"
    given = {"PORT": str(port), "PUBLIC_URL": public_url, "CLIENT_SECRET": secret, "PEOPLE": str(people)}
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["node", "server.js"], cwd=folder, env={**os.environ, **given}, stdout=output, stderr=output
        )
    issuer = f"http://127.0.0.1:{port}"
    try:

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"{issuer}/.well-known/openid-configuration", timeout=10).status_code == 200
            return False

        eventually(answers, 60, lambda: f"a provider: {log.read_text()}", pause=0.1)
        yield issuer
    finally:
        process.kill()
        process.wait()
