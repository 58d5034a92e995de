"""The disk of `ringfence up`'s data folder is full: broker, database, Redis and logs stand on it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ringfence.local.guarded_process import process_exists
from tests.e2e.checker import source_offsets
from tests.e2e.conftest import await_calm
from tests.e2e.flow import Flow
from tests.e2e.up import Up, UpOnASmallDisk
from tests.support.broker import Broker
from tests.support.names import unique
from tests.support.small_disk import fill, new_small_disk
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with new_small_disk(tmp_path / "disk", "400m") as place:
        yield place


def answers(up: Up) -> int:
    """The status of a page that needs the database; 0 where nobody answers."""
    try:
        return up.rest.call("GET", "/connectors").status_code
    except httpx.TransportError:
        return 0


def test_with_the_broker_on_it(disk: Path) -> None:
    """The broker ends, and is started again until there is room; then all goes on by itself."""
    up = UpOnASmallDisk(disk / "data")
    up.start()
    one = None
    try:
        one = Flow(up, unique("full")).create()
        holder, broker = up.lock_holder, up.pid("kafka")
        ballast = fill(disk)
        eventually(lambda: not process_exists(broker), 180, "the broker's end", pause=0.3)
        eventually(lambda: "disk is full" in up.output.read_text(), 60, up.output.read_text, pause=0.3)
        assert process_exists(holder), up.output.read_text()
        ballast.unlink()
        eventually(lambda: answers(up) == 200, 120, "an answer", pause=0.5)
        await_calm(up, 180)
        one.await_progress(200, timeout=180)
        one.settle()
    finally:
        if one is not None:
            one.reader.close()
        up.end()


def test_with_the_database_alone_on_it(disk: Path, broker: Broker) -> None:
    """Tasks go on; a change is refused with the reason; the database catches up when there is room."""
    names = {key: unique(key) for key in ("group", "configs", "offsets", "status", "events")}
    settings = {
        "CONNECT_BOOTSTRAP_SERVERS": broker.bootstrap,
        "CONNECT_GROUP_ID": names["group"],
        **{f"CONNECT_{key}_STORAGE_TOPIC": names[value] for key, value in TOPICS.items()},
        **{f"CONNECT_{key}_STORAGE_REPLICATION_FACTOR": "1" for key in TOPICS},
    }
    up = Up(disk / "data", settings=settings)
    up.kafka_port = int(broker.bootstrap.rpartition(":")[2])
    up.start()
    one = None
    try:
        one = Flow(up, unique("full")).create()
        path, roles = f"/connectors/{one.name}", [up.pid(role) for role in ("web", "worker-1")]
        ballast = fill(disk)
        refused = up.rest.call("PUT", f"{path}/pause")
        assert refused.status_code == 503, refused.text
        assert "disk is full" in refused.json()["message"], refused.text
        one.await_progress(1000, timeout=120)
        ballast.unlink()
        up.rest.settled(202, "PUT", f"{path}/pause", timeout=60)
        one.await_states("PAUSED")
        last = source_offsets(up.connection, names["offsets"], one.name)[0]
        shown = {"offsets": [{"partition": {"id": 0}, "offset": {"seqno": last}}]}
        eventually(lambda: up.rest.expect(200, "GET", f"{path}/offsets") == shown, 60, "the offset in the database")
        up.rest.settled(202, "PUT", f"{path}/resume")
        one.await_states("RUNNING")
        one.await_progress()
        assert roles == [up.pid(role) for role in ("web", "worker-1")], "a role was started again"
    finally:
        if one is not None:
            one.close()
        up.end()


TOPICS = {
    "CONFIG": "configs",
    "OFFSET": "offsets",
    "STATUS": "status",
    "EVENTS": "events",
}
