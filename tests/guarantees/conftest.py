"""A broker behind a proxy, for requests that get lost or come late."""

from collections.abc import Iterator

import pytest

from tests.support.proxy import Proxied, proxied_kafka


@pytest.fixture(scope="session")
def _proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    with proxied_kafka(tmp_path_factory.mktemp("proxied")) as made:
        yield made


@pytest.fixture
def proxied(_proxied: Proxied) -> Iterator[Proxied]:
    """One broker for all; traps and connections are gone after each test."""
    yield _proxied
    _proxied.proxy.clear()
