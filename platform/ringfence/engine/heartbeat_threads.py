"""The threads for a worker's heartbeat and for the leader's connection to Redis. Both need Django set up."""

import threading
from collections.abc import Callable

from ringfence import django_apps
from ringfence.engine.leader.leader_thread import Leader
from ringfence.engine.redis_watch import RedisWatch
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import cluster_id
from ringfence.fencing.topics.status import WorkerRecord

_KAFKA_SECONDS = 2.0


def run_heartbeat(
    worker: WorkerRecord, connection: Connection, leads: Callable[[], bool], stop: threading.Event
) -> None:
    """Send heartbeats until `stop`. It is the body of a thread."""
    django_apps.load()
    from ringfence.heartbeats.cluster_view import probe_redis
    from ringfence.heartbeats.health_probe import HealthProbe
    from ringfence.heartbeats.heartbeat_writer import HeartbeatWriter

    def probe_kafka() -> str:
        try:
            cluster_id(connection, Deadline.after(_KAFKA_SECONDS))
        except FencingError as error:
            return str(error)
        return ""

    HeartbeatWriter(worker.worker, worker.incarnation, leads, HealthProbe(probe_kafka), HealthProbe(probe_redis)).run(
        stop
    )


def watch_redis(worker: WorkerRecord, leader: Leader, stop: threading.Event) -> None:
    """Until `stop`, hand over the leadership if this leader does not reach Redis and another member does. It is the
    body of a thread.
    """
    django_apps.load()
    from django.db import Error as DatabaseError
    from django.db import close_old_connections

    from ringfence.heartbeats.cluster_view import read
    from ringfence.heartbeats.heartbeat import WorkerHeartbeat

    def beats() -> list[WorkerHeartbeat]:
        try:
            return read()[0]
        except DatabaseError:
            return []  # it is unknown who reaches Redis: the leader stays
        finally:
            close_old_connections()

    RedisWatch(leader, worker.incarnation, beats).run(stop)
