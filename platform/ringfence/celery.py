"""The Celery application: requests and wake-ups over Redis. Never the truth, never a source task's body."""

import os

from celery import Celery

REDIS_URL = os.environ.get("RINGFENCE_REDIS_URL", "redis://127.0.0.1:6379/0")

app = Celery("ringfence", broker=REDIS_URL, backend=REDIS_URL)
app.conf.update(
    accept_content=["json"],
    result_accept_content=["json"],
    task_serializer="json",
    result_serializer="json",
    # A command runs at most once: acknowledged before it runs, and dropped by its own deadline where it comes late.
    task_acks_late=False,
    worker_prefetch_multiplier=1,
    task_default_queue="default",
    task_create_missing_queues=True,
    result_expires=600,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"socket_timeout": 5, "socket_connect_timeout": 2, "retry_on_timeout": True},
    redis_socket_timeout=5,
    redis_socket_connect_timeout=2,
    worker_hijack_root_logger=False,
    task_ignore_result=False,
    enable_utc=True,
)
