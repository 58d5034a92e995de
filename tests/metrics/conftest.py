"""An empty database for every test of the metrics."""

from collections.abc import Iterator

import pytest

from tests.support import database


@pytest.fixture(scope="session", autouse=True)
def _tables() -> None:
    database.migrate()


@pytest.fixture(autouse=True)
def _clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where Redis is there."""
    from ringfence.clock_differences import clocks

    monkeypatch.setattr(clocks, "offsets", lambda: {"web": 0.0, "worker-1": -0.25})


@pytest.fixture(autouse=True)
def _empty_tables(_tables: None) -> Iterator[None]:
    database.empty()
    yield
    database.empty()
