"""Writes a worker's heartbeat every two seconds, with what the probes of Kafka and Redis have found; and the freshness
of the projection, once everything before the topics' ends is applied.

A failed write is retried with the next beat: a worker that cannot write counts as cut off, rightly.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final, Protocol

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection, transaction
from django.db.models.functions import Now

from ringfence.fencing.errors import FencingError
from ringfence.heartbeats.models import Freshness, Heartbeat

_PROBE_SECONDS: Final = 1.0
_HUNG_SECONDS: Final = 8.0
_SURE: Final = 2
"""Failed probes in a row before an error is reported: a restarting broker is briefly unreachable."""

Probe = Callable[[], str]
"""Returns why something does not answer, "" if it does. Takes seconds at most."""


class HealthProbe:
    """Probes repeatedly on its own thread. Any thread may read `error`."""

    def __init__(self, probe: Probe, clock: Callable[[], float] = time.monotonic) -> None:
        self._probe = probe
        self._clock = clock
        self._began: float | None = None
        """When the probe in progress began. A process that is frozen between two probes does not find one hanging."""
        self._failures = 0
        self._error = ""

    def run(self, stop: threading.Event) -> None:
        """Run until `stop`."""
        while not stop.is_set():
            self.once()
            stop.wait(_PROBE_SECONDS)

    def once(self) -> None:
        """Probe once."""
        self._began = self._clock()
        error = self._probe()
        self._failures = self._failures + 1 if error else 0
        self._error, self._began = error, None

    @property
    def error(self) -> str:
        """ "" while it answers, and for one failure after it did."""
        began = self._began
        if began is not None and self._clock() - began > _HUNG_SECONDS:
            return self._error or "no answer"
        return self._error if self._failures >= _SURE else ""


class ProjectionTrouble:
    """The projector's thread writes it, the heartbeat's reads it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason = ""

    def note(self, reason: str) -> None:
        """Note why nothing is written; "" once something is again. No value of a row or record belongs here."""
        with self._lock:
            self._reason = reason

    @property
    def reason(self) -> str:
        with self._lock:
            return self._reason


current = ProjectionTrouble()
"""Of this process."""


log = logging.getLogger(__name__)

BEAT_SECONDS = 2.0


class HeartbeatWriter:
    """Writes one worker's heartbeat. leads: whether it leads now, and its loop makes progress."""

    def __init__(
        self, worker: str, incarnation: str, leads: Callable[[], bool], kafka: HealthProbe, redis: HealthProbe
    ) -> None:
        self._worker = worker
        self._incarnation = incarnation
        self._leads = leads
        self._kafka = kafka
        self._redis = redis
        self._has_reported = False

    def run(self, stop: threading.Event) -> None:
        """Run until `stop`; then write that the worker has ended."""
        probes = [
            threading.Thread(target=probing.run, args=(stop,), name=f"probe-{name}", daemon=True)
            for name, probing in (("kafka", self._kafka), ("redis", self._redis))
        ]
        for thread in probes:
            thread.start()
        self._try(self.begin)
        while not stop.wait(BEAT_SECONDS):
            self._try(self.beat)
        self._try(self.end)
        connection.close()

    def begin(self) -> None:
        """Write the first beat of this incarnation, replacing that of the previous one."""
        facts = {"incarnation": self._incarnation, "began_at": Now(), "beat_at": Now(), **self._state()}
        with transaction.atomic():
            Heartbeat.objects.filter(worker=self._worker).delete()
            Heartbeat.objects.create(worker=self._worker, **facts)

    def beat(self) -> None:
        """Write another beat. A worker that was frozen, and whose id has since been taken by another,
        writes nothing.
        """
        mine = Heartbeat.objects.filter(worker=self._worker, incarnation=self._incarnation)
        if not mine.update(beat_at=Now(), **self._state()) and not self._has_replacement():
            self.begin()

    def _has_replacement(self) -> bool:
        return Heartbeat.objects.filter(worker=self._worker).exists()

    def end(self) -> None:
        """Write that it was stopped."""
        Heartbeat.objects.filter(worker=self._worker, incarnation=self._incarnation).update(beat_at=Now(), ended=True)

    def _state(self) -> dict[str, object]:
        errors: dict[str, object] = {
            "kafka_error": self._kafka.error,
            "redis_error": self._redis.error,
            "projection_error": current.reason,
        }
        return {**errors, "led_at": Now()} if self._leads() else errors

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except DatabaseError as error:
            if not self._has_reported:
                log.warning("No heartbeat is written, the database does not answer: %s", error)
            self._has_reported = True
        else:
            self._has_reported = False
        finally:
            close_old_connections()


EVERY_SECONDS = 2.0

Positions = Mapping[tuple[str, int], int]
"""The next offset of each (topic, partition)."""


class Ends(Protocol):
    """Ends that were requested."""

    def is_answered(self) -> bool: ...

    def result(self) -> Positions: ...


class FreshnessWatch:
    """One thread calls `look`, often. ask: starts a request for the ends, and returns within a second. It may raise
    FencingError.
    """

    def __init__(self, ask: Callable[[], Ends], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._asked_at = 0.0
        self._request: Ends | None = None
        self._ends: Positions | None = None
        self._last_positions: Positions = {}
        self._next = 0.0

    def look(self, positions: Positions) -> None:
        """Check the progress. positions: how far each partition is applied. Raises DatabaseError."""
        now = self._clock()
        if self._request is None:
            if now >= self._next:
                self._asked_at, self._next = now, now + EVERY_SECONDS
                try:
                    request = self._ask()
                except FencingError:
                    return  # no broker answers, so the topics' ends are unknown
                self._request, self._ends, self._last_positions = request, None, dict(positions)
            return
        if self._ends is None:
            if not self._request.is_answered():
                return
            try:
                self._ends = self._request.result()
            except FencingError:
                self._request = None  # the topics' ends are unknown
                return
        passed = all(positions.get(partition, 0) >= end for partition, end in self._ends.items())
        # A position may never reach an end, if compaction removed the last records of a segment.
        rests = now - self._asked_at > EVERY_SECONDS and dict(positions) == self._last_positions
        if passed or rests:
            self._request = None
            write(now - self._asked_at)


def write(seconds_ago: float) -> None:
    """Record that the database contains everything that the topics held this long ago."""
    as_of = Now() - timedelta(seconds=seconds_ago)
    if not Freshness.objects.filter(id=1).update(as_of=as_of):
        Freshness.objects.create(id=1, as_of=as_of)
