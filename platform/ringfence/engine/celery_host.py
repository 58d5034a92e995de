"""Celery inside the worker process, in lanes that cannot hold each other up.

- housekeeping: `default`, this worker's own queue, and `health`, which the current leader alone consumes;
- commands: `leader`, consumed by the current leader only;
- questions: `plugins`, which wait for plugins, brokers and other people's servers, each for as long as its deadline.

Each lane is a Celery worker with its own connection and threads: what one has fetched and cannot begin yet waits there.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from redis.exceptions import RedisError

from ringfence import redis_clock
from ringfence.celery import app, application
from ringfence.fencing.topics.status import WorkerRecord

log = logging.getLogger(__name__)

COMMAND_THREADS: Final = 16
_HOUSEKEEPING, _QUESTIONS = 8, 24
_CHECK_SECONDS = 0.1
_END_SECONDS = 10.0


class CeleryHost:
    """Runs the lane of housekeeping in the main thread, where its signal handlers are, and the others beside it."""

    def __init__(self, worker: WorkerRecord, leads: Callable[[], bool]) -> None:
        """leads: whether commands are for this worker now. A leader that stands still leaves them to the next one."""
        self._worker = worker
        self._leads = leads

    def run(self, stop: threading.Event) -> None:
        """Until SIGTERM or SIGINT. Redis away: Celery connects again by itself, the rest of the worker goes on."""
        own = f"worker.{self._worker.worker}.{self._worker.incarnation}"
        housekeeping = self._lane("", _HOUSEKEEPING, ["default", own])
        # A lane has to begin with some queue; `leader` comes and goes.
        commands = self._lane("commands.", COMMAND_THREADS, [f"{own}.commands"], beside=True)
        questions = self._lane("questions.", _QUESTIONS, ["plugins"], beside=True)
        lanes = [threading.Thread(target=lane.start, name=name, daemon=True) for name, lane in
                 (("commands", commands), ("questions", questions))]  # fmt: skip
        for lane in lanes:
            lane.start()
        for celery, queue in ((housekeeping, "health"), (commands, "leader")):
            named = f"{queue}-queue"
            threading.Thread(target=self._follow, args=(celery, queue, stop), name=named, daemon=True).start()
        threading.Thread(target=self._tell_clock, args=(stop,), name="clock", daemon=True).start()
        housekeeping.start()
        for lane in lanes:  # the same signal ends them
            lane.join(_END_SECONDS)

    def _lane(self, prefix: str, threads: int, queues: list[str], *, beside: bool = False) -> Any:
        """`beside`: in a thread of its own. The event loop of kombu is one for the process, so it has none."""
        return application(app.tasks).Worker(
            hostname=f"{prefix}{self._worker.worker}@{self._worker.incarnation}",
            pool="threads",
            concurrency=threads,
            queues=queues,
            loglevel="INFO",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            quiet=True,
            **({"use_eventloop": False} if beside else {}),
        )

    def _follow(self, celery: Any, queue: str, stop: threading.Event) -> None:
        """Level-triggered: compare what is consumed with whether this worker leads, also after Redis was away."""
        while not stop.wait(_CHECK_SECONDS):
            consumer = getattr(celery, "consumer", None)
            tasks = getattr(consumer, "task_consumer", None)
            if consumer is None or tasks is None:
                continue
            consumes = tasks.consuming_from(queue)
            leads = self._leads()
            if leads and not consumes:
                consumer.call_soon(consumer.add_task_queue, queue)
            elif consumes and not leads:
                consumer.call_soon(consumer.cancel_task_queue, queue)

    def _tell_clock(self, stop: threading.Event) -> None:
        while True:
            try:
                redis_clock.tell(self._worker.worker)
            except RedisError as error:
                log.debug("Redis does not answer: %s", error)
            if stop.wait(redis_clock.TOLD_SECONDS):
                return
