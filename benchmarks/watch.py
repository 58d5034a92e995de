"""Observes a run from outside: how many records a read_committed consumer could read, and the cost.

Nothing is consumed, because a consumer would use the CPU that is measured. Every 50 ms the broker is asked for the last
stable offset of the topic's partitions (ListOffsets with isolation level read_committed), up to which a read_committed
consumer can read. For several partitions, it is their sum.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import psutil
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from benchmarks.processes import Memory, Tree, memory_of
from benchmarks.rest import BenchmarkError

EVERY_S = 0.05
MEMORY_EVERY_S = 1.0
# Longer than an interval: the rest of the file is committed only at the end of its interval.
STILL_S = 2.2


@dataclass(frozen=True, slots=True)
class Sample:
    """At monotonic second `at`: the last stable offset, and the CPU seconds that the tree has used."""

    at: float
    visible: int
    cpu_s: float


@dataclass(slots=True)
class Observation:
    """The samples of one run. Memory: the maximum of the samples."""

    created_at: float
    samples: list[Sample] = field(default_factory=list)
    tree: Memory = field(default_factory=Memory)
    task: Memory = field(default_factory=Memory)


def observe(
    bootstrap: str,
    topic: str,
    lines: int,
    pid: int,
    trouble: Callable[[], str | None],
    limit_s: float = 300.0,
    partitions: int = 1,
    more: Callable[[], Iterable[psutil.Process]] = tuple,
) -> Observation:
    """Sample until all lines are visible. Raises BenchmarkError with the trace if the run failed. more: see `Tree`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # Without it, a new client's first ListOffsets takes three seconds once in a while: librdkafka looks for the leader.
    admin.list_topics(topic, timeout=30)
    tree = Tree(pid, more)
    observation = Observation(time.monotonic())
    next_memory, next_look, changed_at, last = 0.0, observation.created_at + 5, observation.created_at, 0
    while True:
        began = time.monotonic()
        visible = last_stable_offset(admin, topic, partitions)
        observation.samples.append(Sample(time.monotonic(), visible, tree.cpu_seconds()))
        if visible != last:
            last, changed_at = visible, began
        if visible and began >= next_memory:
            next_memory = began + MEMORY_EVERY_S
            _weigh(tree, observation)
        if visible >= lines and began - changed_at > STILL_S:
            return observation
        if began >= next_look and began - changed_at > 3:
            next_look = began + 5
            if trace := trouble():
                raise BenchmarkError(f"the run into {topic} failed:\n{trace}")
            if began - observation.created_at > limit_s:
                raise BenchmarkError(f"{visible:,} of {lines:,} lines are in {topic} after {limit_s:.0f} s")
        time.sleep(max(0.0, EVERY_S - (time.monotonic() - began)))


def last_stable_offset(admin: AdminClient, topic: str, partitions: int = 1) -> int:
    """Return the sum over the topic's first `partitions` partitions."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    futures = admin.list_offsets(
        {TopicPartition(topic, partition): latest for partition in range(partitions)},
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=10,
    )
    return sum(int(answer.result().offset) for answer in futures.values())


def _weigh(tree: Tree, observation: Observation) -> None:
    now = tree.memory()
    observation.tree = Memory(max(observation.tree.rss, now.rss), max(observation.tree.pss, now.pss))
    for pid in tree.task_processes():
        task = memory_of(pid)
        observation.task = Memory(max(observation.task.rss, task.rss), max(observation.task.pss, task.pss))
