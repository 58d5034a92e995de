"""Sends a request to a worker and receives its answer: Celery over Redis.

A deadline is transmitted as a time on Redis' clock. An answer is read from the key where the worker stores it.
"""

import time
import uuid
from collections.abc import Mapping
from typing import Any

import redis
from celery import Celery
from kombu.exceptions import OperationalError as BrokerError

from ringfence import messages, redis_client, redis_clock, redis_results
from ringfence.celery import app as ringfence_app
from ringfence.encryption import NoKey
from ringfence.fencing.clock import Deadline
from ringfence.requests.request import Refusal

_REDIS_AWAY = (
    "The request could not be handed to the leader: Redis does not answer ({error}). Nothing was changed and running "
    "connectors continue. Check that Redis runs at RINGFENCE_REDIS_URL, then send the request again."
)

_RESULT_LOST = (
    "Request timed out. Redis went away while it waited for {awaited}. Whether the request was carried out is unknown: "
    "check before you send it again."
)
_RESULT_KEY = "celery-task-meta-"
_AWAY_SECONDS = 5.0
_LOOK_SECONDS = 0.25
_AGAIN_SECONDS = 0.1
_MOST_BYTES = 256 << 20
"""More than any answer has. A larger value comes from somebody else, and would only fill this process's memory."""
_TRIES = 2
_NO_TEXTS = {"argsrepr": "", "kwargsrepr": ""}
"""No message carries its arguments in clear (`messages`), so Celery need not write them out: a quarter of its work."""
_CONNECTING = {"max_retries": 1, "interval_start": 0, "interval_step": 0}


def client(url: str) -> Celery:
    """Return a Celery application that sends, and stores no results.

    Celery's own waiting shares one subscription per process, which does not survive a restart of Redis. Here results
    are read from where the worker stores them.
    """
    app = Celery("ringfence-web", broker=url, set_as_current=False)
    messages.use(app)
    copied = ("task_create_missing_queues", "broker_transport_options", "enable_utc")
    app.conf.update({name: ringfence_app.conf[name] for name in copied})
    app.conf.broker_transport_options = {
        **app.conf.broker_transport_options,
        **redis_client.celery_options(url),
        **_CONNECTING,
    }
    return app


app = client(redis_client.URL)


store = redis_clock.connect
"""Connects to the Redis where workers store results."""

results = store(redis_client.URL)


def ask(
    task: str, queue: str, arguments: Mapping[str, Any], deadline: Deadline, awaited: str, early: float = 0.0
) -> dict[str, Any]:
    """Send the task, and return its answer. early: how many seconds before the deadline it is answered. Raises
    `Refusal`.
    """
    try:
        # Check before anything is sent: requests that a hanging Redis has accepted are carried out when it wakes up.
        there = redis_clock.lately(results)
    except redis.RedisError as error:
        raise Refusal(503, _REDIS_AWAY.format(error=type(error).__name__), retry=True) from error
    try:
        # Not Celery's `expires`, which compares the clocks of two machines: the worker checks the deadline.
        task_id = _send(task, queue, {**arguments, "deadline": there + deadline.remaining - early})
    except NoKey as error:
        raise Refusal(503, f"{error}. Nothing was sent, and running connectors are not affected.") from error
    except (BrokerError, redis.RedisError, OSError) as error:
        raise Refusal(500, _RESULT_LOST.format(awaited=awaited)) from error
    stored = _result(task_id, deadline, awaited)
    answer = stored.get("result")
    if stored.get("status") != "SUCCESS" or not isinstance(answer, dict):
        raise Refusal(
            500, f"{awaited} failed inside the worker; its log has the reason. Check the result before you try again."
        )
    if answer.get("ok") is True:
        return answer
    raise Refusal.parse(answer)


def _send(task: str, queue: str, arguments: Mapping[str, Any]) -> str:
    """Send the task, with one immediate retry: a pooled connection may be dead after a restart of Redis.

    Returns the id, by which a worker knows a message that arrives twice.

    kombu's own retry would go on with a channel that it has closed, where Redis fails while a queue is declared.
    """
    task_id = str(uuid.uuid4())
    for left in reversed(range(_TRIES)):
        try:
            app.send_task(task, kwargs=dict(arguments), queue=queue, task_id=task_id, retry=False, **_NO_TEXTS)
            break
        except (BrokerError, redis.RedisError, OSError):
            if not left:
                raise
    return task_id


def _result(task_id: str, deadline: Deadline, awaited: str) -> dict[str, Any]:
    """Return the task's stored result. Redis may be away for a moment."""
    prefix = app.conf.broker_transport_options.get("global_keyprefix", "")
    key, answered_s = f"{prefix}{_RESULT_KEY}{task_id}", time.monotonic()
    while not deadline.expired:
        try:
            raw = _await_answer(key, deadline)
            answered_s = time.monotonic()
        except redis.RedisError as error:
            if time.monotonic() - answered_s > _AWAY_SECONDS:
                raise Refusal(500, _RESULT_LOST.format(awaited=awaited)) from error
            time.sleep(deadline.slice(_AGAIN_SECONDS))
            raw = b""
        if raw:
            return _read(task_id, raw)
    raise Refusal(500, timeout_message(awaited))


def _await_answer(key: str, deadline: Deadline) -> bytes:
    """Wait for a moment until a worker has stored the result; return it, and delete it. Return b"" if there is none,
    and never more than the limit and one.

    The key counts, since a notice may be lost, or false. All of it is one request: Redis goes on with the commands
    behind the wait when that is over.
    """
    with results.pipeline(transaction=False) as pipe:
        pipe.blpop([redis_results.notice_key(key)], max(0.01, deadline.slice(_LOOK_SECONDS)))
        pipe.execute_command("MULTI")  # type: ignore[no-untyped-call]
        pipe.getrange(key, 0, _MOST_BYTES)
        pipe.delete(key)
        pipe.execute_command("EXEC")  # type: ignore[no-untyped-call]
        raw = pipe.execute()[-1][0]
    return raw if isinstance(raw, bytes) else b""


def _read(task_id: str, raw: bytes) -> dict[str, Any]:
    """Read an answer. One that is not a worker's is refused."""
    if len(raw) > _MOST_BYTES:
        raise Refusal(500, f"The answer in Redis has more than {_MOST_BYTES} bytes. Check before you try again.")
    try:
        stored = messages.decode(raw)
    except ValueError as error:
        raise Refusal(500, f"The answer in Redis cannot be read: {error}. Check before you try again.") from error
    if not isinstance(stored, dict) or stored.get("task_id") != task_id:
        raise Refusal(500, "The answer in Redis belongs to another request. Check before you try again.")
    return stored


def timeout_message(awaited: str) -> str:
    """Return the message for an unknown outcome, which begins like Kafka Connect's."""
    return (
        f"Request timed out. It waited for {awaited}. Whether the request was carried out is unknown: "
        "check before you send it again."
    )
