"""One platform for these tests: a wheel built from the tree, in an environment of its own, away from the checkout.

Its plugins are installed while it runs, from an index of its own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.up import Up
from tests.support.cases import tests_in
from tests.support.wheels import index_variables
from tests.wheel.installed import Installed, install_platform


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in tests_in(Path(__file__).parent, items):
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(420))  # the first one starts a platform
        item.add_marker(pytest.mark.thorough)  # `make test` shows the same product from the checkout


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel, and sees the packages it depends on without our editable install."""
    folder = tmp_path_factory.mktemp("wheel")
    install_platform(folder)
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
