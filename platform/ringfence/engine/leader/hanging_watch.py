"""Searches for hanging transactions (KIP-664) on the leader: on the platform's topics and on the connectors' topics.

It ends a transaction if no coordinator holds it, and if one of these is true:

- It belongs to a transactional id of this group, whose coordinator has just said that it has no such transaction.
- This leader has seen it hang for longer than any transaction may be open, by the leader's clock. The times in a
  partition are those of the records, which may be years old in a live transaction.

Others are only reported, on the Overview page.

Leader and tasks also commit offsets of consumer groups in their transactions, so it also searches the topic of the
consumer groups if the principal may read it. All programs of the cluster share that topic, so only transactions of this
group are ended or reported there.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from ringfence.connectors.sdk.kafka_settings.java_names import servers
from ringfence.engine.queries.hanging_transactions import SLACK_MS, list_clusters, topics_of, try_each_access
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.ids import ConnectorName, leader_transactional_id, task_transactional_id
from ringfence.fencing.kafka.open_transactions import GROUP_OFFSETS, Hanging, HangingProber, Key
from ringfence.fencing.leader.fence_generation import SECONDS, FenceResult, fence
from ringfence.fencing.leader.fence_targets import AdminAccess, target_of
from ringfence.fencing.leader.older_epochs import describe_manual_abort
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_logs import about
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import Attempt, TaskStatus
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

_THREADS = 4
_AGAIN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class AbandonedAttempts:
    """One connector's attempts, and `trouble` if fencing their ids failed; then it is tried again."""

    attempts: Sequence[TaskStatus]
    result: FenceResult
    trouble: str = ""


class AbandonedTransactions:
    """At most one fence at a time for each connector. All methods are called on the leader's thread."""

    def __init__(
        self,
        group_id: str,
        accesses: Callable[[ConnectorName], Sequence[AdminAccess]],
        wake: Callable[[], None],
        seconds: float = SECONDS,
    ) -> None:
        """accesses: returns the connections with which a connector's ids may be fenced; seconds: the limit for each."""
        self._seconds = seconds
        self._group_id = group_id
        self._accesses = accesses
        self._wake = wake
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="abandoned")
        self._running: dict[ConnectorName, tuple[Sequence[TaskStatus], Future[FenceResult]]] = {}
        self._not_before: dict[ConnectorName, float] = {}
        self._done: set[Attempt] = set()

    def start(self, due: Iterable[TaskStatus]) -> None:
        """Fence the ids of these attempts, each attempt once."""
        by_connector: dict[ConnectorName, list[TaskStatus]] = defaultdict(list)
        keys = set()
        for last in due:
            keys.add(last.key)
            if last.key not in self._done:
                by_connector[last.task.connector].append(last)
        self._done &= keys
        for name, attempts in by_connector.items():
            if name not in self._running and time.monotonic() >= self._not_before.get(name, 0.0):
                future = self._pool.submit(self._fence, name, attempts)
                self._running[name] = (attempts, future)
                future.add_done_callback(lambda _: self._wake())

    def _fence(self, name: ConnectorName, attempts: Sequence[TaskStatus]) -> FenceResult:
        with about(name):
            ids = [task_transactional_id(self._group_id, last.task) for last in attempts]
            result = fence(ids, self._accesses(name), self._seconds)
            log.info("Fenced %s: the last attempt ended with a transaction open%s", ", ".join(ids), result.message)
            return result

    def take_finished(self) -> list[AbandonedAttempts]:
        """Return what has finished since the last call."""
        results = []
        for name, (attempts, future) in list(self._running.items()):
            if not future.done():
                continue
            del self._running[name]
            try:
                result = future.result()
            except FencingError as error:
                log.warning("What the last attempts of %s left open could not be ended: %s", name, error)
                self._not_before[name] = time.monotonic() + _AGAIN_SECONDS
                results.append(AbandonedAttempts(attempts, FenceResult(), str(error)))
                continue
            self._not_before.pop(name, None)
            self._done.update(last.key for last in attempts)
            results.append(AbandonedAttempts(attempts, result))
        return results

    def close(self) -> None:
        """Start no more fences. Those that run end by themselves and do no harm."""
        self._pool.shutdown(wait=False, cancel_futures=True)


_ASK_SECONDS: Final = 30.0

Topics = Mapping[ConnectorName, Iterable[str]]


@dataclass(slots=True)
class ClusterTopics:
    """A cluster, with the connectors that write to each topic there."""

    accesses: list[AdminAccess]
    topics: dict[str, set[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HangingResult:
    """A hanging transaction. connectors: those that write to its topic, none for a topic of the platform.

    ended: whether it was just ended; why_not: the reason if it was not.
    """

    one: Hanging
    connectors: tuple[str, ...]
    cluster: str
    ended: bool
    why_not: str = ""

    def describe(self) -> dict[str, object]:
        """Return the fields of an event."""
        one = self.one
        return {
            "cluster": self.cluster,
            "topic": one.topic,
            "partition": one.partition,
            "producer_id": one.producer_id,
            "epoch": one.epoch,
            "start_offset": one.start_offset,
            "last_ms": one.last_ms,
            "transactional_id": one.transactional_id,
            "connectors": list(self.connectors),
            "why_not": self.why_not,
        }


def list_clusters_with_topics(state: ClusterState, active: Topics, worker: WorkerConfig) -> list[ClusterTopics]:
    """Return every cluster that connectors write to, first the worker's own."""
    base = worker.connection("ringfence-hanging")
    own = {worker.config_topic, worker.offsets_topic, worker.status_topic, worker.events_topic}
    places = {
        servers(base.bootstrap): ClusterTopics(
            [AdminAccess("the worker's credentials", base)], {topic: set() for topic in own}
        )
    }
    clusters: dict[frozenset[tuple[str, str]], list[list[AdminAccess]]] = {}  # thousands of connectors have one target
    for connector in state.existing():
        config = connector.config or {}
        target = frozenset(target_of(config).items())
        try:
            if target not in clusters:
                clusters[target] = list_clusters(connector.name, [config], worker)
        except Refusal as refusal:
            log.info("Hanging transactions of %s are not looked for: %s", connector.name, refusal)
            continue
        for accesses in clusters[target]:
            place = places.setdefault(servers(accesses[0].connection.bootstrap), ClusterTopics([]))
            place.accesses = place.accesses or accesses
            for topic in topics_of(active.get(connector.name, ()), config, worker):
                if topic not in own:
                    place.topics.setdefault(topic, set()).add(connector.name)
    return list(places.values())


def end_hanging(place: ClusterTopics, group_id: str, hung_ms: Callable[[str, Hanging], float]) -> list[HangingResult]:
    """Find the hanging transactions in a cluster, and end those that are safe to end.

    hung_ms(cluster, one): returns how long this leader has seen it hang. Raises `Refusal` if no login may look.
    """

    def ask(access: AdminAccess) -> list[HangingResult]:
        with HangingProber(access.connection) as prober:
            hanging = [*prober.hanging(place.topics, (), Deadline.after(_ASK_SECONDS)), *_of_groups(prober, group_id)]
            limit_ms = prober.longest_ms() + SLACK_MS if hanging else 0
            cluster = access.connection.bootstrap
            return [
                _settle(
                    prober, one, place, access, limit_ms - hung_ms(cluster, one) if not _is_ours(one, group_id) else 0
                )
                for one in hanging
            ]

    return try_each_access(place.accesses, ask, "Hanging transactions cannot be looked for")


def _of_groups(prober: HangingProber, group_id: str) -> list[Hanging]:
    """Return this group's hanging transactions on the consumer groups' topic; [] if this principal may not read it,
    like most.
    """
    try:
        hanging = prober.hanging([GROUP_OFFSETS], (), Deadline.after(_ASK_SECONDS))
    except Fatal as error:
        log.debug("Topic %s is not looked at: %s", GROUP_OFFSETS, error)
        return []
    return [one for one in hanging if _is_ours(one, group_id)]


def _is_ours(one: Hanging, group_id: str) -> bool:
    """Return whether it belongs to a task or to the leader."""
    return one.transactional_id.startswith(f"{group_id}-") or one.transactional_id == leader_transactional_id(group_id)


def _settle(
    prober: HangingProber, one: Hanging, place: ClusterTopics, access: AdminAccess, wait_ms: float
) -> HangingResult:
    writers, cluster = tuple(sorted(place.topics.get(one.topic, ()))), access.connection.bootstrap
    if wait_ms > 0:
        why = f"Its owner is unknown: it is ended automatically where it still hangs in {wait_ms / 1000:.0f} s"
        return HangingResult(one, writers, cluster, False, why)
    try:
        prober.abort(one)
    except FencingError as error:
        return HangingResult(one, writers, cluster, False, f"{error}. {describe_manual_abort(one, [access])}")
    log.warning("Ended a transaction that no coordinator knew of: %s", one.message)
    return HangingResult(one, writers, cluster, True)


log = logging.getLogger(__name__)

_EVERY_SECONDS: Final = 60.0


class HangingWatch:
    """Searches once a minute, on another thread. All methods are called on the leader's thread."""

    def __init__(self, worker: WorkerConfig, tell: Callable[[list[HangingResult]], None]) -> None:
        """tell: called with what was found whenever a transaction hangs, or no longer does."""
        self._worker = worker
        self._tell = tell
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="hanging")
        self._running: Future[list[HangingResult]] | None = None
        self._next = time.monotonic() + _EVERY_SECONDS / 6
        self._has_reported = True
        self._since: dict[tuple[str, Key], float] = {}

    def step(self, state: ClusterState, active: Topics) -> None:
        """Start a search if it is due, and report what the last one found. active: topics by connector."""
        if self._running is not None and self._running.done():
            done, self._running = self._running, None
            transactions = done.result()
            if transactions or self._has_reported:
                self._tell(transactions)
            self._has_reported = bool(transactions)
        if self._running is None and time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_SECONDS
            self._running = self._pool.submit(self._look, state, dict(active))

    def _look(self, state: ClusterState, active: Topics) -> list[HangingResult]:
        transactions: list[HangingResult] = []
        try:
            for place in list_clusters_with_topics(state, active, self._worker):
                try:
                    transactions += end_hanging(place, self._worker.group_id, self._hung_ms)
                except Refusal as refusal:
                    log.info("%s", refusal)
        except Exception:
            # The root of the search. A failure must not end the leadership.
            log.exception("Hanging transactions could not be looked for; it is tried again in a minute")
        keys = {(one.cluster, one.one.key) for one in transactions}
        self._since = {key: since for key, since in self._since.items() if key in keys}
        return transactions

    def _hung_ms(self, cluster: str, one: Hanging) -> float:
        now = time.monotonic()
        return (now - self._since.setdefault((cluster, one.key), now)) * 1000

    def close(self) -> None:
        """Start no more searches."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def report_ended(reporter: Reporter, connector: str, one: Hanging, by: str) -> None:
    """Report an event, on which the audit trail and the metric are based. by: who ended it (round, leader)."""
    reporter.event(
        "hanging",
        connector,
        stage="ended",
        by=by,
        transactional_id=one.transactional_id,
        topic=one.topic,
        partition=one.partition,
        producer_id=one.producer_id,
        epoch=one.epoch,
        start_offset=one.start_offset,
        message=one.message,
    )


def report_found(reporter: Reporter, results: list[HangingResult]) -> None:
    """Report an event for each transaction that was ended, and one with the rest."""
    for one in results:
        if one.ended:
            connector = one.connectors[0] if len(one.connectors) == 1 else ""
            report_ended(reporter, connector, one.one, "leader")
    left = [one.describe() for one in results if not one.ended]
    message = f"{len(left)} left" if left else "none"
    reporter.event("hanging", stage="found", hanging=left, message=message)
