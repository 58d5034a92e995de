"""Kafka clients that a module of tests leaves behind fail it.

A client of kafka-python that nobody closes has a thread, which goes on looking for its broker after that has ended, and
complains to a log that pytest has closed.
"""

import threading
from collections.abc import Iterator

import pytest

from ringfence.fencing.kafka.admin import forget_admin_clients
from ringfence.fencing.kafka.client_pool import close_idle_clients
from tests.support.waiting import eventually

_SECONDS = 15.0


@pytest.fixture(scope="module", autouse=True)
def _no_clients_left() -> Iterator[None]:
    yield
    close_idle_clients()
    forget_admin_clients()

    def none_left() -> bool:
        left = [each.name for each in threading.enumerate() if each.name.startswith("kafka-io-")]
        assert not left, f"clients that nobody has closed: {', '.join(left)}"
        return True

    eventually(none_left, _SECONDS, "the end of kafka-python's threads")
