"""Kafka clients that a module of tests leaves behind fail it; the JVM of a Spark that it had is ended.

A client of kafka-python that nobody closes has a thread, which goes on looking for its broker after that has ended, and
complains to a log that pytest has closed. One of librdkafka has several, which Python does not know: the kernel does.
"""

import gc
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from ringfence.fencing.kafka.client_pool import close_idle_clients, forget_admin_clients
from tests.support.spark_jvm import end_jvm
from tests.support.waiting import eventually

_SECONDS = 15.0
_FEW = 4
"""Clients of librdkafka end when Python frees them. Some live on in traces of expected errors: at most one was seen."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without the garbage collector: what tests are made of stays, and it would look through it a hundred times."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What is there by now stays: half a million objects that no collection has to look through again."""
    gc.collect()
    gc.freeze()


def native_clients() -> int:
    """How many clients of librdkafka live in this process: each has one main thread."""
    found = 0
    for task in Path("/proc/self/task").glob("*/comm"):
        try:
            found += task.read_text().strip() == "rdk:main"
        except OSError:
            continue  # it has just ended
    return found


@pytest.fixture(scope="module", autouse=True)
def _no_clients_left() -> Iterator[None]:
    before = native_clients()
    yield
    end_jvm()
    forget_admin_clients()

    def none_left() -> bool:
        close_idle_clients()  # a thread that was still asking gives its client back later
        left = [each.name for each in threading.enumerate() if each.name.startswith("kafka-io-")]
        assert not left, f"clients that nobody has closed: {', '.join(left)}"
        return True

    def none_more() -> bool:
        if native_clients() <= before:
            return True  # a collection takes most of a second in a long run, and most modules have no clients
        gc.collect()
        more = native_clients() - before
        assert more <= _FEW, f"{more} clients of librdkafka that nobody has closed"
        return True

    eventually(none_left, _SECONDS, "the end of kafka-python's threads")
    eventually(none_more, _SECONDS, "the end of librdkafka's threads")
