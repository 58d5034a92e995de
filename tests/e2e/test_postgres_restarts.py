"""PostgreSQL is restarted under a running platform: tasks do not notice, and the rest comes back by itself."""

from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.e2e.checker import source_offsets
from tests.e2e.conftest import await_calm, flows
from tests.e2e.flow import OFFSETS, Flow
from tests.e2e.up import Up
from tests.support.postgres import Postgres, new_postgres
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
Make = Callable[..., Flow]


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    with new_postgres() as server:
        yield server


@pytest.fixture
def on_postgres(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("on-postgres"), workers=1, settings={"RINGFENCE_DATABASE_URL": postgres.url}) as up:
        yield up


@pytest.fixture
def stream(on_postgres: Up) -> Iterator[Make]:
    await_calm(on_postgres)
    yield from flows(on_postgres)


def test_nothing_is_lost_and_the_projection_catches_up(on_postgres: Up, postgres: Postgres, stream: Make) -> None:
    one = stream()
    path, rest = f"/connectors/{one.name}", on_postgres.rest
    roles = [on_postgres.pid(role) for role in ("web", "worker-1")]
    postgres.stop()
    refused = rest.call("PUT", f"{path}/pause")
    assert refused.status_code == 503
    assert "database does not answer" in refused.json()["message"]
    one.await_progress(200, timeout=60)
    postgres.start()

    def answers() -> bool:
        try:
            return rest.call("GET", "/connectors").status_code == 200
        except httpx.TransportError:
            return False

    eventually(answers, 30, "an answer from the database that is back")
    rest.settled(202, "PUT", f"{path}/pause")
    one.await_states("PAUSED")
    one.check()
    last = source_offsets(on_postgres.connection, OFFSETS, one.name)[0]
    shown = {"offsets": [{"partition": {"id": 0}, "offset": {"seqno": last}}]}
    eventually(lambda: rest.expect(200, "GET", f"{path}/offsets") == shown, 60, "the offset in the database")
    rest.settled(202, "PUT", f"{path}/resume")
    one.settle()
    assert roles == [on_postgres.pid(role) for role in ("web", "worker-1")], "a role was started again"
