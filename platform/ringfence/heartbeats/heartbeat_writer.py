"""Writes a worker's heartbeat every two seconds, with what the probes of Kafka and Redis have found.

A failed write is retried with the next beat: a worker that cannot write counts as cut off, rightly.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection, transaction
from django.db.models.functions import Now

from ringfence.heartbeats.models import Heartbeat

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
