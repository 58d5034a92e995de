"""Writes a worker's heartbeat every two seconds, with what the probes of Kafka and Redis have found.

A failed write is retried with the next beat: a worker that cannot write counts as cut off, rightly.
"""

import logging
import threading
from collections.abc import Callable

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection, transaction
from django.db.models.functions import Now

from ringfence.heartbeats import projection_trouble
from ringfence.heartbeats.health_probe import HealthProbe
from ringfence.heartbeats.models import Heartbeat

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
            "projection_error": projection_trouble.current.reason,
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
