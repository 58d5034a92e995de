"""The alerts in a worker: the thread that evaluates the rules, and the Celery task that makes one try."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from kombu.exceptions import OperationalError as BrokerError
from redis import RedisError

from ringfence import django_apps
from ringfence.celery import app

NAME = "ringfence.alerts.deliver"
QUEUE = "default"

log = logging.getLogger(__name__)
_task: Callable[..., Callable[[Callable[[int], str]], Any]] = app.task  # Celery's decorator has no types


@_task(name=NAME, ignore_result=True)
def deliver(delivery: int) -> str:
    """Try it once, if it is still due. The result is in the database; Redis contains only the number."""
    django_apps.load()
    from django.db import close_old_connections

    from ringfence.alerts.deliveries import attempt

    try:
        return attempt(delivery)
    finally:
        close_old_connections()  # this thread serves no request that would do it


def enqueue_delivery(delivery: int) -> None:
    """Have some worker make the next try. If Redis does not answer, it is handed out again after a while."""
    try:
        app.send_task(NAME, kwargs={"delivery": delivery}, queue=QUEUE, retry=False, ignore_result=True)
    except (BrokerError, RedisError, OSError) as error:
        log.info("Delivery %d waits, Redis does not answer: %s", delivery, type(error).__name__)


def watch(holder: str, leads: Callable[[], bool | None], stop: threading.Event) -> None:
    """Run the thread until `stop`. leads: whether some worker leads; None if that is unknown."""
    django_apps.load()
    from ringfence.alerts.evaluation import Evaluator

    Evaluator(holder, enqueue_delivery, leads).run(stop)


def watch_alone(holder: str, stop: threading.Event) -> None:
    """Do the same without Celery, for a worker that waits for a lost topic: due messages are sent on this thread."""
    django_apps.load()
    from ringfence.alerts.deliveries import attempt
    from ringfence.alerts.evaluation import Evaluator

    Evaluator(holder, lambda delivery: log.info("%s", attempt(delivery)), lambda: False).run(stop)
