"""Heartbeats between workers: the leader watches all members of the group, and all others watch the leader.

Four times a second, each worker writes a number that grows to Redis. If a worker's number stays the same, it is asked
in the status topic (`failure_detector.py` says when, and what follows). So nobody is suspected who reaches Kafka, even
if Redis is not reached from everywhere; and whoever does not reach Redis suspects nobody. Then only the group's session
decides.

A suspected worker stays a member of the workers' group: the session decides about that. But the leader places its tasks
elsewhere (`take_out`), and takes it out of the projection's group. A suspected leader is taken out of both groups, so
that another member leads at once. If it runs after all, Kafka fences it, and it joins again.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, Protocol

import redis

from ringfence import redis_client
from ringfence.engine.dead_peers import remove
from ringfence.fencing.leader.failure_detector import Evidence, Watch, calm_s, decide, find_record, look
from ringfence.fencing.leader.next_placement import Place
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import AnswerRecord, StatusState, SuspicionRecord, Trust, WorkerRecord
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_BEAT_SECONDS: Final = 0.25
_REDIS_SECONDS: Final = 0.5
_KEPT_SECONDS: Final = 60
_MOST_DIGITS: Final = 18
"""Of a heartbeat. Whoever reaches Redis can write something longer there."""
_AGAIN_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 1.0
_TURN_SECONDS: Final = 0.25
_MOST_TURNS: Final = 4


class Heartbeats:
    """The heartbeats of one cluster in Redis. Used by one thread."""

    def __init__(self, group_id: str, client: redis.Redis | None = None) -> None:
        self._prefix = f"{redis_client.key_prefix()}ringfence:heartbeat:{group_id}:"
        self._client = client or redis_client.connect(
            socket_timeout=_REDIS_SECONDS, socket_connect_timeout=_REDIS_SECONDS
        )

    def exchange(self, own: Place, number: int, others: Sequence[Place]) -> dict[Place, int] | None:
        """Write an own heartbeat, and return the newest ones of these; None if Redis does not answer."""
        pipeline = self._client.pipeline(transaction=False)
        pipeline.set(self._key(own), number, ex=_KEPT_SECONDS)
        for place in others:
            pipeline.getrange(self._key(place), 0, _MOST_DIGITS)
        try:
            _, *values = pipeline.execute()
        except redis.RedisError:
            return None
        beats = {place: _parse(value) for place, value in zip(others, values, strict=True)}
        return {place: beat for place, beat in beats.items() if beat is not None}

    def _key(self, place: Place) -> str:
        return f"{self._prefix}{place[0]}@{place[1]}"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _parse(value: bytes | str) -> int | None:
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


class LeaderView(Protocol):
    """What `SuspicionWatch` needs of the leader's thread. Any thread may use it."""

    ready: threading.Event
    places: Sequence[Place]
    """The live members when the leader last checked."""

    def statuses(self) -> StatusState: ...


class Exchange(Protocol):
    """The type of `Heartbeats.exchange`."""

    def __call__(self, own: Place, number: int, others: Sequence[Place]) -> dict[Place, int] | None: ...


Remove = Callable[[Sequence[str], Place, str], object]
"""Takes a worker process out of these groups, without waiting for that; the last argument says why."""


@dataclass(frozen=True, slots=True)
class _LastWrite:
    record: SuspicionRecord
    at: float


class SuspicionWatch:
    """The watch of one worker, over the leader or over all others. `look` is called by one thread, again and again."""

    def __init__(
        self,
        own: Place,
        leader: LeaderView,
        exchange: Exchange,
        reporter: Reporter,
        groups: Sequence[str],
        take_out: Remove,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """groups: of which workers are members, first the one that chooses the leader."""
        self._own = own
        self._leader = leader
        self._exchange = exchange
        self._reporter = reporter
        self._groups = groups
        self._take_out = take_out
        self._clock = clock
        self._number = 0
        self._looked_at = clock()
        self._watches: dict[Place, Watch] = {}
        self._last_writes: dict[Place, _LastWrite] = {}
        self._removal_times: dict[Place, float] = {}

    def look(self) -> None:
        """Send a heartbeat, and judge the others'. A worker that is alone does neither."""
        status = self._leader.statuses()
        leads = self._leader.ready.is_set()
        if len(status.workers) < 2:
            self._watches.clear()
            return
        peers = self._find_peers(status, leads)
        self._number += 1
        beats = self._exchange(self._own, self._number, [place for place in peers if place != self._own])
        now = self._clock()
        seconds, self._looked_at = now - self._looked_at, now
        before, self._watches = self._watches, {}
        for place in peers:
            heartbeat = self._number if place == self._own else (beats or {}).get(place)
            evidence = Evidence(seconds, heartbeat, beats is not None, *_find_records(status, place))
            self._watches[place] = watch = look(before.get(place), evidence)
            record = decide(watch, *place, 0.0 if leads else self._delay(status))
            if record is not None and (leads or _accuses(watch, record)):
                self._write(watch, place, record, now)
            if not leads and watch.trust is Trust.SUSPECTED and watch.unanswered_s > 0 and not watch.is_heard:
                self._replace_leader(place, now)

    def _find_peers(self, status: StatusState, leads: bool) -> list[Place]:
        if leads:
            return list(self._leader.places)
        leader = status.leader
        if leader is None or leader.incarnation == self._own[1]:
            return []
        return [(leader.worker, leader.incarnation)]

    def _delay(self, status: StatusState) -> float:
        """Return how much later than others this worker suspects the leader, so that mostly one of them does."""
        turn = sum(1 for worker in status.workers if worker < self._own[0])
        return min(turn, _MOST_TURNS) * _TURN_SECONDS

    def _write(self, watch: Watch, place: Place, record: SuspicionRecord, now: float) -> None:
        """Write the record, and once more if it is not in the topic a second later."""
        last = self._last_writes.get(place)
        if last is not None and last.record == record and now - last.at < _AGAIN_SECONDS:
            return
        self._last_writes[place] = _LastWrite(record, now)
        is_new = record.trust is not watch.trust and (last is None or last.record != record)
        since_ms = self._reporter.now_ms() if record.trust is not watch.trust else record.since_ms
        self._reporter.status(replace(record, by=self._own[0], since_ms=since_ms))
        if not is_new:
            return
        if record.trust is Trust.SUSPECTED and self._leader.ready.is_set():
            self._take_out(self._groups[1:], place, f"worker {place[0]} is silent")
        stage, message = _describe(record, watch)
        log.log(
            logging.WARNING if record.trust is Trust.SUSPECTED else logging.INFO, "Worker %s %s: %s",
            place[0], stage, message,
        )  # fmt: skip
        self._reporter.event("worker", worker=place[0], incarnation=place[1], stage=stage, message=message)

    def _replace_leader(self, place: Place, now: float) -> None:
        if now - self._removal_times.get(place, float("-inf")) < _AGAIN_SECONDS:
            return
        self._removal_times = {place: now}
        self._take_out(self._groups, place, f"worker {place[0]}, which leads, is silent")


def _find_records(status: StatusState, place: Place) -> tuple[SuspicionRecord | None, int]:
    answer = find_record(status.answers, place)
    return find_record(status.suspicions, place), answer.question if answer is not None else 0


def _accuses(watch: Watch, record: SuspicionRecord) -> bool:
    """Return whether the record is a question or a suspicion. All else about a leader is written by itself."""
    return record.question != watch.question or record.trust is Trust.SUSPECTED


def _describe(record: SuspicionRecord, watch: Watch) -> tuple[str, str]:
    if record.trust is Trust.SUSPECTED:
        return "suspected", (
            f"It sent nothing for {watch.silent_s:.1f} s and did not answer in Kafka, so its tasks are placed on other "
            "workers. If its process runs, look at its machine's load and network"
        )
    if record.trust is Trust.CALMING:
        seconds = calm_s(record.times)
        return (
            "back",
            f"It answers again. It keeps the tasks that it has. For {seconds:g} calm seconds it gets others only if no "
            "other worker has a slot",
        )
    return "trusted", "It was calm for long enough, and gets tasks again"


class Answers:
    """Answers the questions about this worker. `run` is the body of a thread."""

    def __init__(
        self,
        own: Place,
        statuses: Callable[[], StatusState],
        wait_until: Callable[[Callable[[], bool], float], bool],
        reporter: Reporter,
    ) -> None:
        """wait_until: waits for a change of the statuses, as `StatusLog.wait_until` does."""
        self._own = own
        self._statuses = statuses
        self._wait_until = wait_until
        self._reporter = reporter
        self._answered = 0

    def run(self, stop: threading.Event) -> None:
        """Run until `stop`."""
        while not stop.is_set():
            self.answer_next()

    def answer_next(self) -> None:
        """Wait for the next question for a moment, and answer it."""
        if self._wait_until(self._is_due, _WAIT_SECONDS):
            self._answered = self._question()
            self._reporter.status(AnswerRecord(*self._own, self._answered))

    def _question(self) -> int:
        record, _ = _find_records(self._statuses(), self._own)
        return record.question if record is not None else 0

    def _is_due(self) -> bool:
        return self._question() > self._answered


def run(
    worker: WorkerRecord, config: WorkerConfig, leader: LeaderView, reporter: Reporter, stop: threading.Event
) -> None:
    """Send heartbeats, and watch those of others, until `stop`. It is the body of a thread."""
    connection = config.connection(f"ringfence-{worker.worker}-suspicions")
    own = (worker.worker, worker.incarnation)
    heartbeats = Heartbeats(config.group_id)
    removals = ThreadPoolExecutor(1, thread_name_prefix="removals")  # a heartbeat does not wait for the brokers

    def take_out(groups: Sequence[str], place: Place, why: str) -> None:
        removals.submit(remove, connection, groups, *place, why)

    watch = SuspicionWatch(own, leader, heartbeats.exchange, reporter, config.groups, take_out)
    try:
        while not stop.wait(_BEAT_SECONDS):
            watch.look()
    finally:
        removals.shutdown(wait=False, cancel_futures=True)
        heartbeats.close()
