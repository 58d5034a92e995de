"""The cluster's vital signs as a web process sees them: at most two small queries per second, and a Redis probe on a
thread.
"""

import threading
import time
from datetime import UTC, datetime
from typing import Final

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from ringfence import redis_client
from ringfence.heartbeats.cluster_health import ProjectionAge, Vitals, WorkerHeartbeat, assess
from ringfence.heartbeats.heartbeat_writer import HealthProbe
from ringfence.heartbeats.models import Freshness, Heartbeat
from ringfence.heartbeats.starting import read_starting
from ringfence.plain_queries import select

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


_NOW: Final = {
    "sqlite": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')",  # of one moment within a statement, as PostgreSQL's
    "postgresql": "STATEMENT_TIMESTAMP()",
}


def read() -> tuple[list[WorkerHeartbeat], ProjectionAge | None]:
    """Return the rows, with their ages by the database's own clock. In SQL, as in `plain_queries`: each command reads
    them. Raises DatabaseError.
    """
    clock = _NOW[connection.vendor]
    columns = "worker, incarnation, kafka_error, redis_error, ended, projection_error, beat_at, began_at, led_at"
    beats = []
    for row in select(Heartbeat, f"{columns}, {clock}", "1 = 1 ORDER BY worker"):
        worker, incarnation, kafka_error, redis_error, ended, projection_error = row[:6]
        beat_at, began_at, now = (_parse(row[place]) for place in (6, 7, 9))
        led_age_s = None if row[8] is None else _age(_parse(row[8]), now)
        ages = _age(beat_at, now), _age(began_at, now), _ms(beat_at), led_age_s
        errors = kafka_error, redis_error, bool(ended), projection_error
        beats.append(WorkerHeartbeat(worker, incarnation, *ages, *errors))
    fresh = select(Freshness, f"as_of, {clock}", "1 = 1 LIMIT 1")
    if not fresh:
        return beats, None
    as_of, now = map(_parse, fresh[0])
    return beats, ProjectionAge(_age(as_of, now), _ms(as_of))


def _parse(value: datetime | str) -> datetime:
    """Read a time as the database gives it: SQLite without a time zone, and that of a function as text."""
    time_of = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return time_of if time_of.tzinfo is not None else time_of.replace(tzinfo=UTC)


def _age(then: datetime, now: datetime) -> float:
    """Return the age in seconds, negative if the database's clock was set back in between."""
    return (now - then).total_seconds()


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


look = VitalsCache()
