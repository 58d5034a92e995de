"""A worker's own heartbeat: what it asks, of whom, and that the thread sets Django up first."""

import threading
from collections.abc import Callable

from ringfence import django_apps
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.admin import cluster_id
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.topics.status import WorkerRecord

_KAFKA_SECONDS = 2.0


def run_heartbeat(
    worker: WorkerRecord, connection: Connection, leads: Callable[[], bool], stop: threading.Event
) -> None:
    """The thread: until `stop`."""
    django_apps.load()
    from ringfence.heartbeats.beating import Beating, Probing
    from ringfence.heartbeats.look import probe_redis

    def probe_kafka() -> str:
        try:
            cluster_id(connection, Deadline.after(_KAFKA_SECONDS))
        except FencingError as error:
            return str(error)
        return ""

    Beating(worker.worker, worker.incarnation, leads, Probing(probe_kafka), Probing(probe_redis)).run(stop)
