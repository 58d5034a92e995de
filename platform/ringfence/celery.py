"""The Celery application: requests and wake-ups over Redis. It keeps no state and runs no source tasks."""

from celery import Celery

from ringfence import messages, redis_client
from ringfence.redis_broker import Broker
from ringfence.redis_results import backend


def application(*, current: bool = False) -> Celery:
    """Return a new application with our settings and all tasks. Each application consumes one set of queues.

    current: make it the process's current application. An application creates its own instances of the tasks, since
    they are shared (Celery's default); one registry for several makes Celery warn of duplicates.
    """
    app = Celery(
        "ringfence",
        broker=redis_client.URL,
        backend=backend(redis_client.URL),
        amqp=Broker,
        task_cls=messages.BoundTask,
        set_as_current=current,
    )
    messages.use(app)
    app.conf.update(
        # A command runs at most once: it is acknowledged before it runs, and dropped if it arrives after its deadline.
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        task_default_queue="default",
        task_create_missing_queues=True,
        # The sender reads its result within milliseconds and deletes it. This is for senders that have gone.
        result_expires=messages.ANSWER_SECONDS,
        broker_connection_retry_on_startup=True,
        broker_transport_options={
            "socket_timeout": 5,
            "socket_connect_timeout": 2,
            "retry_on_timeout": True,
            # A connection on which nothing comes is given up after five to nine seconds: its server is gone, or hangs.
            "health_check_interval": 4,
            **redis_client.celery_options(),
        },
        result_backend_transport_options=redis_client.celery_options(),
        redis_socket_timeout=5,
        redis_socket_connect_timeout=2,
        worker_hijack_root_logger=False,
        task_ignore_result=False,
        enable_utc=True,
    )
    return app


app = application(current=True)
