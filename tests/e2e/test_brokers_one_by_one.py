"""Three brokers are stopped, killed and replaced one after another: records go on, and each is there once."""

import time
from collections.abc import Callable, Iterator

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from benchmarks.kills import ArrivalsByTask
from ringfence.local.kafka import EmbeddedKafka
from tests.e2e.conftest import await_calm, flows
from tests.e2e.flow import Flow
from tests.e2e.machine import watched
from tests.e2e.redundant import ROLLING, Cluster, OnBrokers
from tests.support.cluster import REPLICATED, more_brokers, running, three_brokers
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
Make = Callable[..., Flow]
Note = Callable[[str, float], None]
PROMISED_SECONDS = 20.0
"""Without a record of a task. A broker that is killed is fenced after nine."""
HEALED_SECONDS = 60.0


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EmbeddedKafka]]:
    root = tmp_path_factory.mktemp("brokers")
    with running(three_brokers(root, 3, **REPLICATED, **ROLLING)) as made:
        yield made


@pytest.fixture(scope="module")
def up(brokers: list[EmbeddedKafka], tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnBrokers]:
    with OnBrokers(tmp_path_factory.mktemp("on-brokers"), list(brokers), 2, {}) as made:
        yield made


@pytest.fixture
def stream(up: OnBrokers) -> Iterator[Make]:
    await_calm(up)
    yield from flows(up)


def _watch(up: OnBrokers, stream: Make, note: Note, what: str, act: Callable[[Flow], object]) -> None:
    """Act under load. The longest pause of a task is noted, and is short; each record is there once."""
    one = stream(tasks=3, throughput=100, interval_ms=200)
    arrivals = ArrivalsByTask(up.connection, one.name)
    try:
        eventually(lambda: len(arrivals.times) == 3, 30, "records of each task")
        with watched() as promised:
            since = time.monotonic()
            act(one)
            done = time.monotonic()
            newest = arrivals.times
            eventually(lambda: all(each[-1] > done for each in list(newest.values())), HEALED_SECONDS, "records")
            longest = max(arrivals.pauses(since, time.monotonic()).values())
    finally:
        arrivals.close()
    note(f"longest pause of a task, {what}", longest)
    one.settle()
    await_calm(up)
    assert longest < promised(PROMISED_SECONDS)


def test_brokers_are_restarted_one_by_one(
    up: OnBrokers, brokers: list[EmbeddedKafka], stream: Make, stopwatch: Note
) -> None:
    cluster = Cluster(brokers[:3])

    def restart_all(_: Flow) -> None:
        for broker in cluster.brokers:
            cluster.await_in_sync()
            cluster.restart(broker)

    _watch(up, stream, stopwatch, "three brokers restarted one by one", restart_all)


def test_the_broker_of_a_tasks_transactions_is_killed(
    up: OnBrokers, brokers: list[EmbeddedKafka], stream: Make, stopwatch: Note
) -> None:
    cluster = Cluster(brokers[:3])

    def kill(one: Flow) -> None:
        cluster.await_in_sync()
        coordinator = cluster.task_coordinator(one.name)
        coordinator.kill()
        one.await_progress(100, timeout=HEALED_SECONDS)  # without it
        coordinator.start()
        cluster.await_in_sync()

    _watch(up, stream, stopwatch, "the coordinator's broker killed", kill)


def test_brokers_are_replaced_one_by_one(
    up: OnBrokers,
    brokers: list[EmbeddedKafka],
    stream: Make,
    stopwatch: Note,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Each gets a successor, which takes over all of its partitions, those of the coordinators, too."""
    successors = more_brokers(tmp_path_factory.mktemp("successors"), brokers, 3)
    for each in successors:
        brokers.append(each)  # so that it is killed at the end
        each.start()
    cluster = Cluster(brokers)
    client = KafkaAdminClient(bootstrap_servers=[each.bootstrap for each in brokers])

    def replace(old: int, new: int) -> None:
        moved = {
            TopicPartition(*partition): [new if each == old else each for each in replicas]
            for partition, replicas in cluster.replicas().items()
            if old in replicas
        }
        refused = {where: error for where, error in client.alter_partition_reassignments(moved).items() if error}
        assert not refused, refused
        eventually(lambda: not client.list_partition_reassignments(), 180, "all partitions have moved", pause=0.5)
        cluster.await_in_sync()
        assert not [where for where, replicas in cluster.replicas().items() if old in replicas]

    def replace_all(_: Flow) -> None:
        for old in (1, 2, 3):
            replace(old, old + 3)
        brokers[0].stop(60)  # it has no partition any more; two controllers are left

    try:
        _watch(up, stream, stopwatch, "three brokers replaced one by one", replace_all)
    finally:
        client.close()
    assert brokers[0].process.poll() is not None
