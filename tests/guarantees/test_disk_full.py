"""The broker's disk is full: it ends, and what was committed is whole when it is back with room to write."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ringfence.fencing.kafka.connection import Connection
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.stage import Counting, Script, Stage
from tests.support.broker import running_kafka
from tests.support.small_disk import fill, new_small_disk
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SIZE = "256m"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, small; making one takes root."""
    with new_small_disk(tmp_path / "disk", SIZE) as place:
        yield place


@pytest.fixture
def broker_on_it(small_disk: Path) -> Iterator[EmbeddedKafka]:
    with running_kafka(small_disk, log_index_size_max_bytes="65536", log_segment_bytes="1048576") as kafka:
        yield kafka


def test_nothing_is_lost_and_nothing_twice(
    broker_on_it: EmbeddedKafka, small_disk: Path, unique: Callable[[str], str]
) -> None:
    stage = Stage(Connection(broker_on_it.bootstrap), unique("full"))

    def slowly(task: Counting) -> None:
        task.context.wait(0.02)

    config = {"name": "numbers", "topic": stage.data, "transaction.boundary": "poll"}
    stage.configure(config)
    stage.count()
    script = Script(batch=100, before_poll=slowly)
    first = stage.start(script, config)
    stage.wait_for(500)
    ballast = fill(small_disk)
    eventually(lambda: not broker_on_it.running, 120, "the broker's end", pause=0.2)
    os.unlink(ballast)
    broker_on_it.start()
    committed = len(stage.visible())

    def going_on() -> bool:
        return len(stage.visible()) > committed + 500

    last = first
    if first.outcome is not None:  # it may have given up; then the leader would have started the next one by now
        last = stage.start(script, config, attempt=2)
    eventually(going_on, 120, lambda: last.outcome or "it runs and writes nothing", pause=0.5)
    last.finish_after(0)
    stage.exact(committed + 500)
    stage.close()
