"""What a JVM connects to is held to `egress.allow`, whatever code of the connector opens the connection."""

from collections.abc import Iterator

import pytest

from ringfence.connectors.api.records import MixedBatch
from ringfence.connectors.java.task import JavaSourceTask
from ringfence.connectors.sdk import worker_limits
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from tests.connectors.java.conftest import Start
from tests.support.trap import Trap
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("plugins", "shared_folder")


@pytest.fixture
def listener() -> Iterator[Trap]:
    before = worker_limits.current()
    made = Trap()
    yield made
    made.close()
    worker_limits.declare(before)


def outcome(task: JavaSourceTask) -> str:
    batch = eventually(task.poll, 60, "the first batch", pause=0.0)
    assert isinstance(batch, MixedBatch)
    (value,) = batch.values
    return str(value)


@pytest.mark.parametrize("process", ["own", "shared"])
@pytest.mark.parametrize(
    "egress,host,allowed",
    [
        ("loopback", "127.0.0.1", True),
        ("localhost", "localhost", True),
        ("public,private", "127.0.0.1", False),
        ("*.localhost", "127.0.0.1", False),
        ("public,private", "localhost", False),
    ],
)
def test_a_connection_of_a_plugin(
    start: Start, listener: Trap, process: str, egress: str, host: str, allowed: bool
) -> None:
    worker_limits.declare(WorkerLimits(egress=egress))
    said = outcome(start("connect", java_process=process, address=f"{host}:{listener.port}"))
    expected = "connected;connected;" if allowed else "Permission denied;Permission denied;"
    assert expected in said
    assert len(listener.callers) == (2 if allowed else 0)
