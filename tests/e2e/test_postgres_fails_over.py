"""PostgreSQL's primary dies and a standby that lacks the newest rows takes over: Kafka makes up for them."""

import time
from collections.abc import Callable, Iterator
from functools import partial

import httpx
import pytest

from tests.e2e.checker import source_offsets
from tests.e2e.conftest import await_calm, flows
from tests.e2e.flow import OFFSETS, Flow
from tests.e2e.rest import Rest
from tests.e2e.up import Up
from tests.support.postgres_pair import PostgresPair, new_postgres_pair
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
Make = Callable[..., Flow]
ROUNDS_SECONDS = 15.0
"""Three rounds of the alert rules."""


@pytest.fixture
def pair() -> Iterator[PostgresPair]:
    with new_postgres_pair() as servers:
        yield servers


@pytest.fixture
def on_pair(pair: PostgresPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("on-pair"), workers=1, settings={"RINGFENCE_DATABASE_URL": pair.url}) as up:
        yield up


@pytest.fixture
def stream(on_pair: Up) -> Iterator[Make]:
    await_calm(on_pair)
    yield from flows(on_pair)


def _answers(rest: Rest, path: str, wanted: object) -> bool:
    return bool(rest.expect(200, "GET", path) == wanted)


def test_what_the_standby_lacks_is_read_again_from_kafka(
    on_pair: Up, pair: PostgresPair, stream: Make, stopwatch: Callable[[str, float], None]
) -> None:
    rest = on_pair.rest
    one = stream()
    roles = [on_pair.pid(role) for role in ("web", "worker-1")]
    pair.await_replication()
    pair.cut_replication()
    late = stream("late")  # only the primary's rows and Kafka know it
    late.await_progress(100)
    assert pair.standby.query(f"SELECT count(*) FROM mirror_connector WHERE name = '{late.name}'") == "0"
    killed = time.monotonic()
    pair.fail_over()

    def names() -> set[str]:
        try:
            answer = rest.call("GET", "/connectors")
        except httpx.TransportError:
            return set()
        return set(answer.json()) if answer.status_code == 200 else set()

    eventually(names, 60, "an answer", pause=0.05)
    stopwatch("the API answers after the kill of PostgreSQL's primary", time.monotonic() - killed)
    eventually(lambda: names() >= {one.name, late.name}, 60, names, pause=0.3)
    stopwatch("with all that the standby lacked", time.monotonic() - killed)
    for flow in (one, late):
        path = f"/connectors/{flow.name}"
        flow.await_progress(100, timeout=60)
        rest.settled(202, "PUT", f"{path}/pause")
        flow.await_states("PAUSED")
        flow.check()
        last = source_offsets(on_pair.connection, OFFSETS, flow.name)[0]
        shown = {"offsets": [{"partition": {"id": 0}, "offset": {"seqno": last}}]}
        eventually(partial(_answers, rest, f"{path}/offsets", shown), 60, "the offset in the rows")
        rest.settled(202, "PUT", f"{path}/resume")
        flow.settle()
    assert roles == [on_pair.pid(role) for role in ("web", "worker-1")], "a role was started again"
    _await_alerts(on_pair)


def _await_alerts(up: Up) -> None:
    """The rules are evaluated again: for some rounds nobody says that the database does not answer."""
    seen, since = -1, time.monotonic()

    def quiet() -> bool:
        nonlocal seen, since
        count = up.log("worker-1").count("Alerts are not evaluated")
        if count != seen:
            seen, since = count, time.monotonic()
        return time.monotonic() - since > ROUNDS_SECONDS

    eventually(quiet, 60, "rules are evaluated", pause=0.5)
