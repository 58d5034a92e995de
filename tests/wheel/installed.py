"""What is installed from a wheel, and how it is called."""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.e2e.up import Up, environment

ROOT = Path(__file__).resolve().parents[2]
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input")
_BUILT_FROM = (
    "pyproject.toml",
    "setup.py",
    "README.md",
    "LICENSE",
    "connectors",
    "docs",
    "fencing",
    "platform",
    "static",
    "templates",
)


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


def install_platform(
    folder: Path, change: Callable[[Path], None] = lambda source: None, *, compiled: bool = False
) -> Path:
    """Build a wheel from the tree in `folder`, and install it in an environment there; return its interpreter.

    The environment sees the packages that Ringfence depends on without our editable install. change: gets a copy of
    the tree before it is built. compiled: whether the build may take the checkout's Java part, if that is up to date.
    """
    source = folder / "source"
    source.mkdir()
    for name in _BUILT_FROM:
        path = ROOT / name
        if path.is_dir():
            ignored = ("__pycache__", "*.egg-info", *(() if compiled else ("*.jar",)))
            shutil.copytree(path, source / name, symlinks=True, ignore=shutil.ignore_patterns(*ignored))
        else:
            shutil.copy2(path, source / name)
    change(source)
    offline = ("--no-build-isolation", "--no-deps", "--no-index")
    run(*PIP, "wheel", *offline, "--wheel-dir", folder / "dist", source, cwd=folder)
    shutil.rmtree(source)
    (wheel,) = (folder / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    install_wheel(python, wheel)
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def install_wheel(python: Path, wheel: Path) -> None:
    """Install the wheel, and nothing that it needs, in the interpreter's environment."""
    run(*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=wheel.parent)


class Installed(Up):
    """`ringfence up` as the wheel's own script starts it."""

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        super().__init__(home / "data", workers=1, settings=settings)
        self.cwd = home

    def command(self) -> list[str]:
        script = str(self.data.parent / "venv" / "bin" / "ringfence")
        return [script, "up", "--data", str(self.data), "--http", self.http, "--kafka", self.bootstrap]
