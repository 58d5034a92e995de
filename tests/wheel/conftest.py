"""One platform for these tests: a wheel built from the tree, in an environment of its own, away from the checkout.

Its plugins are installed while it runs, from an index of its own.
"""

import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.up import Up
from tests.support.cases import tests_in
from tests.support.wheels import index_variables
from tests.wheel.installed import PIP, ROOT, Installed, run

BUILT_FROM = (
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in tests_in(Path(__file__).parent, items):
        item.add_marker(pytest.mark.timeout(420))  # the first one starts a platform
        item.add_marker(pytest.mark.thorough)  # `make test` shows the same product from the checkout


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel, and sees the packages it depends on without our editable install."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in BUILT_FROM:
        path = ROOT / name
        if path.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.jar")  # the build compiles it
            shutil.copytree(path, source / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy2(path, source / name)
    offline = ("--no-build-isolation", "--no-deps", "--no-index")
    run(*PIP, "wheel", *offline, "--wheel-dir", folder / "dist", source, cwd=folder)
    shutil.rmtree(source)
    (wheel,) = (folder / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    run(*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


@pytest.fixture(scope="package")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which pip finds packages, and nowhere else. A test puts them there."""
    return tmp_path_factory.mktemp("index")


@pytest.fixture(scope="package")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the platform has its plugins."""
    return tmp_path_factory.mktemp("plugins")


@pytest.fixture(scope="package")
def up(home: Path, index: Path, plugins: Path) -> Iterator[Up]:
    """One worker."""
    paths = {"CONNECT_PLUGIN_PATH": str(plugins), "CONNECT_PLUGIN_INSTALL_PATH": str(plugins)}
    installed = Installed(home, {**paths, **index_variables(index)})
    installed.start()
    try:
        yield installed
    finally:
        installed.end()
