"""Celery inside the worker process. The queue `leader` is consumed by the current leader only."""

import logging
import threading
from typing import Any

from fencing.status import WorkerRecord
from ringfence.celery import app

log = logging.getLogger(__name__)

_CONCURRENCY = 8
_CHECK_SECONDS = 0.1


class CeleryHost:
    """Runs the Celery worker in the main thread, where its signal handlers are."""

    def __init__(self, worker: WorkerRecord, leads: threading.Event) -> None:
        self._worker = worker
        self._leads = leads

    def run(self, stop: threading.Event) -> None:
        """Until SIGTERM or SIGINT. Redis away: Celery connects again by itself, the rest of the worker goes on."""
        own = f"worker.{self._worker.worker}.{self._worker.incarnation}"
        celery: Any = app.Worker(
            hostname=f"{self._worker.worker}@{self._worker.incarnation}",
            pool="threads",
            concurrency=_CONCURRENCY,
            queues=["default", "plugins", own],
            loglevel="INFO",
            without_gossip=True,
            without_mingle=True,
            quiet=True,
        )
        threading.Thread(target=self._follow, args=(celery, stop), name="leader-queue", daemon=True).start()
        celery.start()

    def _follow(self, celery: Any, stop: threading.Event) -> None:
        """Level-triggered: compare what is consumed with whether this worker leads, also after Redis was away."""
        while not stop.wait(_CHECK_SECONDS):
            consumer = getattr(celery, "consumer", None)
            tasks = getattr(consumer, "task_consumer", None)
            if consumer is None or tasks is None:
                continue
            consumes = tasks.consuming_from("leader")
            if self._leads.is_set() and not consumes:
                consumer.call_soon(consumer.add_task_queue, "leader")
            elif consumes and not self._leads.is_set():
                consumer.call_soon(consumer.cancel_task_queue, "leader")
