"""What the tests of connectors share."""

from collections.abc import Iterator

import pytest

from ringfence.connectors import worker_limits
from ringfence.connectors.worker_limits import WorkerLimits


@pytest.fixture
def loopback_egress() -> Iterator[None]:
    """Connectors may connect to this machine; afterwards the limits are what they were, whatever a test declared."""
    former = worker_limits.current()
    worker_limits.declare(WorkerLimits(egress="loopback"))
    yield
    worker_limits.declare(former)
