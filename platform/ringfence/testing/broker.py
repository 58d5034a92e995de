"""A broker for checks: a running one, or one that is started for as long as it is needed."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port

BOOTSTRAP: Final = "RINGFENCE_TEST_BOOTSTRAP"
"""The environment variable with a running broker, host:port. Topics are created there and kept."""


@contextmanager
def running_broker() -> Iterator[str]:
    """Yield `bootstrap.servers`. Raises LocalError if the broker does not start."""
    bootstrap = os.environ.get(BOOTSTRAP)
    if bootstrap:
        yield bootstrap
        return
    with tempfile.TemporaryDirectory(prefix="ringfence-testing-") as root:
        kafka = EmbeddedKafka(Path(root) / "kafka", free_port(), Path(root) / "kafka.log", short_lived=True)
        kafka.start()
        try:
            yield kafka.bootstrap
        finally:
            kafka.kill()  # its data is not used again
