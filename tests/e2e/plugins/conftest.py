"""One platform that installs Python plugins, from an index of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.up import Up
from tests.support.wheels import index_variables


@pytest.fixture(scope="package")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which pip finds packages, and nowhere else. A test puts them there."""
    return tmp_path_factory.mktemp("index")


@pytest.fixture(scope="package")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the platform has its plugins."""
    return tmp_path_factory.mktemp("plugins")


@pytest.fixture(scope="package")
def up(tmp_path_factory: pytest.TempPathFactory, index: Path, plugins: Path) -> Iterator[Up]:
    """One worker."""
    paths = {"CONNECT_PLUGIN_PATH": str(plugins), "CONNECT_PLUGIN_INSTALL_PATH": str(plugins)}
    made = Up(tmp_path_factory.mktemp("installs"), settings={**paths, **index_variables(index)})
    made.start()
    try:
        yield made
    finally:
        made.end()
