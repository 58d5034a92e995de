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
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from ringfence.engine.leader.hanging_cleanup import HangingResult, Topics, end_hanging, list_clusters_with_topics
from ringfence.fencing.kafka.hanging_transactions import Hanging, Key
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.reporter import Reporter
from ringfence.requests.refusal import Refusal
from ringfence.worker_config import WorkerConfig

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
