"""A share group's tasks are killed, frozen and doubled: every record of the input is in the output once.

The same run with the check left out must show records twice, or it proves nothing. The long forms are in
`tests/chaos/test_share_chaos.py`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ringfence.fencing.kafka.connection import Connection
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.share_chaos import TROUBLED, chaos
from tests.guarantees.share_monkey import KINDS, ShareMonkey
from tests.guarantees.shares import Queue
from tests.support.broker import Broker
from tests.support.waiting import eventually

SHORT, LONGER = 4.0, 14.0


@pytest.fixture
def queue(kafka: EmbeddedKafka, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Queue]:
    made = Queue(Connection(kafka.bootstrap), unique("share"), tmp_path)
    yield made
    made.close()


def each_kind_once(monkey: ShareMonkey, _until: float) -> None:
    """An attempt is killed, one is frozen for a while, and one gets a second attempt beside it."""
    for kind in KINDS:
        eventually(partial(monkey.trouble_one_that_has_begun, kind), 60, "a task that has had a record")


def test_records_are_there_once(queue: Queue) -> None:
    assert chaos(queue, "exact", 932, SHORT, trouble=each_kind_once) == (0, 0)


@pytest.mark.thorough
def test_records_are_there_once_whatever_happens_when(queue: Queue) -> None:
    assert chaos(queue, "exact", 932, LONGER) == (0, 0)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_input_on_another_cluster(
    kafka: EmbeddedKafka, broker: Broker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """The ledger is where the output is; the share group is where the input is, and decides nothing."""
    queue = Queue(Connection(broker.bootstrap), unique("share"), tmp_path, source=Connection(kafka.bootstrap))
    try:
        assert chaos(queue, "exact", 933, 30.0) == (0, 0)
    finally:
        queue.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_without_the_check_there_are_records_twice(
    kafka: EmbeddedKafka, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Whether one run meets the defect is chance: a lock has to expire while a commit stands still."""
    for seed in range(932, 938):
        folder = tmp_path / str(seed)
        folder.mkdir()
        queue = Queue(Connection(kafka.bootstrap), unique("share"), folder)
        try:
            _, twice = chaos(queue, "nocheck", seed, 30.0)
        finally:
            queue.close()
        if twice:
            return
    pytest.fail("six runs were too tame to find the defect")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_record_that_ends_its_process_becomes_a_dead_letter(queue: Queue) -> None:
    letters = f"{queue.source}-dead"
    policy = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters}
    topic = {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "1"}
    wanted = {**TROUBLED, "share_sweep_after_ms": "2000", "share_exhausted": "dead-letter", "kill_value": "37"}
    queue.configure(1, {**queue.settings(**wanted), **policy, **topic})
    queue.feed(range(100))
    process = queue.start(0)
    deaths = 0

    def went_on() -> bool:
        nonlocal process, deaths
        if process.poll() is not None:
            deaths += 1
            process = queue.start(0)
        return len(queue.visible()) == 99 and len(queue.read(letters)) == 1

    eventually(went_on, 400, "99 records and one dead letter", pause=0.2)
    queue.end()
    assert set(queue.visible().values()) == {1}
    assert queue.read(letters) == {b"37": 1}
    # Twice with other records, and alone as often as the broker delivers a record: noted first, and each one deadly.
    # How often the broker delivered it before that depends on how soon the sweep was there.
    assert {times for _, times in queue.tries()} == {1, 2, 3, 4}
    assert deaths >= 4
