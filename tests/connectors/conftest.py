"""What the tests of connectors share."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits

if TYPE_CHECKING:
    from tests.support.mariadb import MariaDb
    from tests.support.sql_runs import Sqlite


@pytest.fixture
def kept_limits() -> Iterator[None]:
    """Afterwards the worker's limits are what they were, whatever a test declared."""
    former = worker_limits.current()
    yield
    worker_limits.declare(former)


@pytest.fixture
def loopback_egress(kept_limits: None) -> None:
    """Connectors may connect to this machine."""
    worker_limits.declare(WorkerLimits(egress="loopback"))


@pytest.fixture
def temporary_roots(kept_limits: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Connectors may read files in pytest's temporary folders."""
    worker_limits.declare(WorkerLimits((str(tmp_path_factory.getbasetemp()),)))


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


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator["MariaDb"]:
    from tests.support.mariadb import mariadb

    with mariadb(tmp_path_factory.mktemp("mariadb")) as made:
        yield made
