"""What the tests of connectors share."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits

if TYPE_CHECKING:
    from tests.support.sql_runs import Sqlite


@pytest.fixture
def loopback_egress() -> Iterator[None]:
    """Connectors may connect to this machine; afterwards the limits are what they were, whatever a test declared."""
    former = worker_limits.current()
    worker_limits.declare(WorkerLimits(egress="loopback"))
    yield
    worker_limits.declare(former)


@pytest.fixture
def temporary_roots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Connectors may read files in pytest's temporary folders."""
    former = worker_limits.current()
    worker_limits.declare(WorkerLimits((str(tmp_path_factory.getbasetemp()),)))
    yield
    worker_limits.declare(former)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for the files that a connector reads."""
    path = tmp_path / "in"
    path.mkdir()
    return path


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator["Sqlite"]:
    from tests.support.sql_runs import Sqlite

    made = Sqlite(tmp_path / "database.sqlite")
    yield made
    made.connection.close()
