"""What is installed from a wheel, and how it is called."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.up import Up, environment

ROOT = Path(__file__).resolve().parents[2]
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment({}) | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Installed(Up):
    """`ringfence up` as the wheel's own script starts it."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        super().__init__(home / "data", workers=1, settings=settings)
        self.cwd = home

    def command(self) -> list[str]:
        script = str(self.data.parent / "venv" / "bin" / "ringfence")
        return [script, "up", "--data", str(self.data), "--http", self.http, "--kafka", self.bootstrap]
