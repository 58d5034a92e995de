"""The share-partition of a real broker, held against the pure one operation by operation, and over a SIGKILL."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.share.share_partition.state_topic import ShareSnapshot, StateTable, find_first_needed
from ringfence.local.kafka import EmbeddedKafka
from tests.guarantees.share_partitions import Lab
from tests.guarantees.share_seed import run_the_table
from tests.guarantees.share_transactions import TransactionLab
from tests.guarantees.shares import FLOORS
from tests.support.broker import Broker, running_kafka

_LONG_LOCK_MS = 15_000
_LONGEST_LOCK_MS = 60_000


def test_a_broker_persists_what_the_module_says(broker: Broker, unique: Callable[[str], str]) -> None:
    """Accepted, released, rejected by our tasks' own client, with the shortest lock that any broker allows."""
    lab = Lab(Connection(broker.bootstrap), unique("share-partition"), 932, _LONG_LOCK_MS, everything=False)
    try:
        while lab.done.count("acquire") < 12:
            lab.step()
    finally:
        lab.close()
    assert {"accept", "release", "reject"} <= set(lab.done)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 12])
def test_a_broker_treats_aborted_records_and_markers_as_the_module(
    broker: Broker, unique: Callable[[str], str], seed: int
) -> None:
    """Each fetch acquires what the module says, and each answer persists it, to the offset.

    Seed 12 soon has a leader forget the share-partition, and read again only what was persisted.
    """
    lab = TransactionLab(Connection(broker.bootstrap), unique("share-transactions"), seed, _LONGEST_LOCK_MS)
    wanted = {"gap", "accept", "release"} | ({"forgotten"} if seed == 12 else set())
    try:
        while lab.done.count("aborted") < 5 or not wanted <= set(lab.done):
            lab.step()
        for _ in range(20):
            lab.step()
    finally:
        lab.close()


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """Locks may expire after a second; a snapshot follows after ten updates."""
    with running_kafka(tmp_path, **FLOORS, share_coordinator_snapshot_update_records_per_snapshot="10") as made:
        yield made


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_table_of_the_kip_on_a_broker(kafka: EmbeddedKafka, unique: Callable[[str], str]) -> None:
    run_the_table(Connection(kafka.bootstrap), unique("share-table"), 10_000)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_aborted_records_over_expired_locks_and_a_killed_broker(
    kafka: EmbeddedKafka, unique: Callable[[str], str], seed: int
) -> None:
    """Nothing is persisted of aborted records: after the broker is back they are read and archived again."""
    lab = TransactionLab(Connection(kafka.bootstrap), unique("share-partition"), seed, 20_000, expires=True, updates=10)
    try:
        while lab.done.count("fetch") < 25 or "expire" not in lab.done:
            lab.step()
        kept = list(lab.history)
        kafka.kill()
        lab.close()
        kafka.start()
        lab.read()
        assert lab.history[: len(kept)] == kept
        lab.recover()
        while lab.done.count("fetch") < 35:
            lab.step()
    finally:
        lab.close()
    assert {"aborted", "gap", "accept", "release", "renew", "leave", "expire"} <= set(lab.done)
    assert any(isinstance(one.record, ShareSnapshot) for one in lab.history[len(kept) :])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_state_is_recovered_after_the_broker_is_killed(
    kafka: EmbeddedKafka, unique: Callable[[str], str], seed: int
) -> None:
    """Locks expire and members leave, too. What was acquired at the end of the broker is available again."""
    lab = Lab(Connection(kafka.bootstrap), unique("share-partition"), seed, 5000, everything=True, updates=10)
    try:
        while lab.done.count("acquire") < 40 or lab.done.count("expire") < 2:
            lab.step()
        while not any(holder.held for holder in lab.holders):
            lab.step()
        before, kept = lab.state, list(lab.history)
        kafka.kill()
        lab.close()
        kafka.start()
        lab.read()
        assert lab.history[: len(kept)] == kept
        assert lab.state.partition == before.partition
        lab.recover()
        while lab.done.count("acquire") < 60:
            lab.step()
    finally:
        lab.close()
    assert lab.state.leader_epoch > before.leader_epoch
    snapshots = [one for one in lab.history if isinstance(one.record, ShareSnapshot)]
    assert len(snapshots) > 2
    needed = StateTable()
    for one in lab.history:
        if one.offset >= (find_first_needed(lab.history) or 0):
            needed.take(one)
    assert needed.states[lab.key].batches == lab.state.batches
    assert {"accept", "release", "reject", "leave", "expire"} <= set(lab.done)
