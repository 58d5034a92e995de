"""The cluster's vital signs as a web process sees them: at most two small queries per second, and a Redis probe on a
thread.
"""

import threading
import time
from datetime import datetime

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db.models import DateTimeField, ExpressionWrapper
from django.db.models.functions import Now

from ringfence import redis_client
from ringfence.heartbeats.cluster_health import ProjectionAge, Vitals, WorkerHeartbeat, assess
from ringfence.heartbeats.heartbeat_writer import HealthProbe
from ringfence.heartbeats.models import Freshness, Heartbeat
from ringfence.heartbeats.starting import read_starting

KEPT_SECONDS = 1.0
CLUSTER_MODE = "it is in cluster mode: set RINGFENCE_REDIS_URL to cluster://HOST:PORT in place of redis://HOST:PORT"
_REDIS_SECONDS = 1.5


def probe_redis(url: str = redis_client.URL) -> str:
    """Return why Redis does not answer, or cannot be used; "" if it can."""
    client = redis_client.connect(url, socket_timeout=_REDIS_SECONDS, socket_connect_timeout=_REDIS_SECONDS)
    try:
        client.ping()
        return CLUSTER_MODE if not redis_client.is_cluster(url) and _is_in_cluster_mode(client) else ""
    except (redis_client.NoCluster, redis_client.NoOwner) as error:
        return str(error)
    except redis.RedisError as error:
        return type(error).__name__
    finally:
        client.close()


def _is_in_cluster_mode(client: redis.Redis) -> bool:
    try:
        return bool(client.info("cluster").get("cluster_enabled"))
    except redis.ResponseError:  # this login may not ask
        return False


class VitalsCache:
    """The view of this process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until = 0.0
        self._last = Vitals()
        self._redis: HealthProbe | None = None

    def vitals(self) -> Vitals:
        """Return the vital signs, at most a second old. Without the database: the last known ones, because no page can
        show newer data.
        """
        with self._lock:
            if time.monotonic() < self._until:
                return self._last
            self._until = time.monotonic() + KEPT_SECONDS  # so that others need not wait for the same answer
        try:
            beats, projected = read()
            awaited = read_starting(settings.STARTING)
            self._last = assess(beats, projected, self._watched_redis().error if beats else "", awaited)
        except DatabaseError:
            pass
        return self._last

    def forget(self) -> None:
        """Make the next call read again."""
        self._until = 0.0

    def _watched_redis(self) -> HealthProbe:
        if self._redis is None:
            self._redis = HealthProbe(probe_redis)
            threading.Thread(target=self._redis.run, args=(threading.Event(),), name="redis-probe", daemon=True).start()
        return self._redis


def read() -> tuple[list[WorkerHeartbeat], ProjectionAge | None]:
    """Return the rows, with their ages by the database's own clock. Raises DatabaseError."""
    now = ExpressionWrapper(Now(), output_field=DateTimeField())
    beats = [
        WorkerHeartbeat(
            row.worker,
            row.incarnation,
            _age(row.beat_at, row.now),
            _age(row.began_at, row.now),
            _ms(row.beat_at),
            None if row.led_at is None else _age(row.led_at, row.now),
            row.kafka_error,
            row.redis_error,
            row.ended,
            row.projection_error,
        )
        for row in Heartbeat.objects.annotate(now=now).order_by("worker")
    ]
    fresh = Freshness.objects.annotate(now=now).first()
    return beats, None if fresh is None else ProjectionAge(_age(fresh.as_of, fresh.now), _ms(fresh.as_of))


def _age(then: datetime, now: datetime) -> float:
    """Return the age in seconds, negative if the database's clock was set back in between."""
    return (now - then).total_seconds()


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


look = VitalsCache()
