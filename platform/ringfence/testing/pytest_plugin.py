"""Fixtures for an author's tests: `pytest_plugins = ["ringfence.testing.pytest_plugin"]` in conftest.py."""

from collections.abc import Iterator

import pytest

from ringfence.testing.broker import running_broker


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """Yield `bootstrap.servers` of a real broker for the whole run. RINGFENCE_TEST_BOOTSTRAP=host:port uses a running
    one.
    """
    with running_broker() as bootstrap:
        yield bootstrap
