"""Runs Celery inside the worker process, in three lanes that cannot block each other.

- housekeeping: consumes `default`, this worker's own queue, and on the leader `health`;
- commands: consumes `leader`, on the leader only;
- questions: consumes `plugins`. Its tasks wait for plugins, brokers and other servers until their deadlines.

Each lane is a Celery worker with its own connection and threads, so a task waits only for tasks of its own lane.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Final

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from ringfence import redis_clock
from ringfence.celery import application
from ringfence.fencing.topics.status import WorkerRecord

log = logging.getLogger(__name__)

COMMAND_THREADS: Final = 24
"""Most wait for a plugin that validates a configuration, or for the end of a fencing round."""
QUESTION_THREADS: Final = 24
WAKE: Final = "ringfence.wake"
"""A task that does nothing. A lane without an event loop looks at what else it is to consume only between messages,
and every two seconds.
"""
_HOUSEKEEPING: Final = 8
_CHECK_SECONDS = 0.1
_NO_CHECKS: Final = "CELERY_SKIP_CHECKS"
"""Else each lane runs Django's checks. Those are about this version's code, which its tests have checked, and they load
all pages and the whole API, which a worker does not need.
"""
_END_SECONDS = 10.0


class CeleryHost:
    """Runs the housekeeping lane in the main thread, which handles signals, and the other lanes in threads."""

    def __init__(self, worker: WorkerRecord, leads: Callable[[], bool]) -> None:
        """leads: returns whether this worker takes commands now. A leader that is stuck leaves them to the next one."""
        self._worker = worker
        self._leads = leads

    def run(self, stop: threading.Event) -> None:
        """Run until SIGTERM or SIGINT. Without Redis, Celery reconnects, and the rest of the worker continues."""
        os.environ.setdefault(_NO_CHECKS, "1")
        own = f"worker.{self._worker.worker}.{self._worker.incarnation}"
        housekeeping = self._lane("", _HOUSEKEEPING, ["default", own])
        # A lane needs a queue to start with; `leader` is added and removed.
        commands = self._lane("commands.", COMMAND_THREADS, [f"{own}.commands"], beside=True)
        questions = self._lane("questions.", QUESTION_THREADS, ["plugins"], beside=True)
        lanes = [threading.Thread(target=lane.start, name=name, daemon=True) for name, lane in
                 (("commands", commands), ("questions", questions))]  # fmt: skip
        for lane in lanes:
            lane.start()
        for celery, queue, wake in ((housekeeping, "health", ""), (commands, "leader", f"{own}.commands")):
            thread_name = f"{queue}-queue"
            arguments = celery, queue, stop, wake
            threading.Thread(target=self._follow, args=arguments, name=thread_name, daemon=True).start()
        threading.Thread(target=self._tell_clock, args=(stop,), name="clock", daemon=True).start()
        housekeeping.start()
        for lane in lanes:  # the same signal has ended them
            lane.join(_END_SECONDS)

    def _lane(self, prefix: str, threads: int, queues: list[str], *, beside: bool = False) -> Any:
        """Create a lane. beside: it runs in its own thread, without kombu's event loop: a process has only one."""
        return application().Worker(
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

    def _follow(self, celery: Any, queue: str, stop: threading.Event, wake: str) -> None:
        """Consume the queue while this worker leads. It compares states, so it also recovers after a loss of Redis.

        wake: a queue of the lane by which it is woken up; "" for a lane that need not be.
        """
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
            if wake and leads != consumes:
                with contextlib.suppress(OperationalError):  # without Redis there is nothing to consume either
                    celery.app.send_task(WAKE, queue=wake, retry=False, ignore_result=True)

    def _tell_clock(self, stop: threading.Event) -> None:
        while True:
            try:
                redis_clock.publish_offset(self._worker.worker)
            except RedisError as error:
                log.debug("Redis does not answer: %s", error)
            if stop.wait(redis_clock.TOLD_SECONDS):
                return
