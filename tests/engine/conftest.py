"""A leader on a real broker, and a broker that asks for a login; they start only where a test asks for them."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from ringfence.fencing.leader import next_placement

if TYPE_CHECKING:
    from ringfence.worker_config import WorkerConfig
    from tests.support.broker import Broker
    from tests.support.engine_cluster import Cluster


@pytest.fixture
def cluster(broker: "Broker", unique: Callable[[str], str], environment: Mapping[str, str]) -> Iterator["Cluster"]:
    """A leader and no launcher: the test plays the tasks."""
    from tests.support.engine_cluster import Cluster

    made = Cluster(broker, unique, environment)
    made.start()
    yield made
    made.close()


@pytest.fixture
def quick_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed task is restarted after five seconds."""
    monkeypatch.setattr(next_placement, "FIRST_S", 5)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator["WorkerConfig"]:
    """The super user of a broker that denies what is not granted."""
    from tests.support.guarded_broker import guarded_worker

    with guarded_worker(tmp_path_factory.mktemp("guarded")) as made:
        yield made


@pytest.fixture(scope="module")
def users() -> Iterator[str]:
    """Names of users who may do nothing yet."""
    from tests.support.guarded_broker import USERS

    return iter(USERS)
