"""The Celery application: requests and wake-ups over Redis. Never the truth, never a source task's body."""

import os

from celery import Celery
from celery.app.registry import TaskRegistry

from ringfence import messages

REDIS_URL = os.environ.get("RINGFENCE_REDIS_URL", "redis://127.0.0.1:6379/0")


def application(tasks: TaskRegistry | None = None) -> Celery:
    """One with our settings; with `tasks`, a further one that runs those: each has one set of queues to consume."""
    made = Celery(
        "ringfence",
        broker=REDIS_URL,
        backend=REDIS_URL,
        tasks=tasks,
        task_cls=messages.BoundTask,
        set_as_current=tasks is None,
    )
    messages.use(made)
    made.conf.update(
        # A command runs at most once: acknowledged before it runs, and dropped by its own deadline where it comes late.
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        task_default_queue="default",
        task_create_missing_queues=True,
        # Whoever asked reads its answer within milliseconds and deletes it; this is for those who went away.
        result_expires=messages.ANSWER_SECONDS,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"socket_timeout": 5, "socket_connect_timeout": 2, "retry_on_timeout": True},
        redis_socket_timeout=5,
        redis_socket_connect_timeout=2,
        worker_hijack_root_logger=False,
        task_ignore_result=False,
        enable_utc=True,
    )
    return made


app = application()
