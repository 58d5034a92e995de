"""An empty database for every test of the metrics."""

import pytest

from tests.support.database import empty_tables, migrated

__all__ = ["empty_tables", "migrated"]


@pytest.fixture(autouse=True)
def _clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where Redis is there."""
    from ringfence.clock_differences import clocks

    monkeypatch.setattr(clocks, "offsets", lambda: {"web": 0.0, "worker-1": -0.25})
