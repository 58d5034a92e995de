"""The cluster's signs of life as a web process sees them: two small queries a second at most, and Redis on a thread."""

import threading
import time
from datetime import datetime

import redis
from django.db import Error as DatabaseError
from django.db.models import DateTimeField, ExpressionWrapper
from django.db.models.functions import Now

from ringfence.celery import REDIS_URL
from ringfence.heartbeats.beating import Probing
from ringfence.heartbeats.cluster import Beat, Projected, Vitals, assess
from ringfence.heartbeats.models import Freshness, Heartbeat

KEPT_SECONDS = 1.0
_REDIS_SECONDS = 1.5


def probe_redis(url: str = REDIS_URL) -> str:
    """Why Redis does not answer, "" where it does."""
    client = redis.Redis.from_url(url, socket_timeout=_REDIS_SECONDS, socket_connect_timeout=_REDIS_SECONDS)
    try:
        client.ping()
    except redis.RedisError as error:
        return type(error).__name__
    finally:
        client.close()
    return ""


class Look:
    """Of this process; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until = 0.0
        self._seen = Vitals()
        self._redis: Probing | None = None

    def vitals(self) -> Vitals:
        """As of a second ago at most. The database away: what was known last, since no page can show anything else."""
        with self._lock:
            if time.monotonic() < self._until:
                return self._seen
            self._until = time.monotonic() + KEPT_SECONDS  # others do not wait for the same answer
        try:
            beats, projected = read()
            self._seen = assess(beats, projected, self._watched_redis().error if beats else "")
        except DatabaseError:
            pass
        return self._seen

    def forget(self) -> None:
        """The next one asks again."""
        self._until = 0.0

    def _watched_redis(self) -> Probing:
        if self._redis is None:
            self._redis = Probing(probe_redis)
            threading.Thread(target=self._redis.run, args=(threading.Event(),), name="redis-probe", daemon=True).start()
        return self._redis


def read() -> tuple[list[Beat], Projected | None]:
    """The rows, with their ages by the database's own clock. Raises DatabaseError."""
    now = ExpressionWrapper(Now(), output_field=DateTimeField())
    beats = [
        Beat(
            row.worker,
            row.incarnation,
            _age(row.beat_at, row.now),
            _age(row.began_at, row.now),
            _ms(row.beat_at),
            None if row.led_at is None else _age(row.led_at, row.now),
            row.kafka_error,
            row.redis_error,
            row.ended,
        )
        for row in Heartbeat.objects.annotate(now=now).order_by("worker")
    ]
    fresh = Freshness.objects.annotate(now=now).first()
    return beats, None if fresh is None else Projected(_age(fresh.as_of, fresh.now), _ms(fresh.as_of))


def _age(then: datetime, now: datetime) -> float:
    """Below zero where the database's clock was set back in between."""
    return (now - then).total_seconds()


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


look = Look()
