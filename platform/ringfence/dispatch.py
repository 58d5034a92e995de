"""The web side of a command: ask the leader over Celery, then wait until the database shows what was written.

1 send `ringfence.leader.command` to the queue `leader` with a wall-clock deadline, 2 wait for its answer, 3 wait until
the projection has passed the offsets that the answer names (read-your-writes). A command that ran out of time is
unknown, never "failed": the message says what was waited for.
"""

import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import redis
from celery.exceptions import TimeoutError as ResultTimeout
from kombu.exceptions import OperationalError as BrokerError

from fencing.clock import Deadline
from ringfence.celery import app
from ringfence.mirror import positions

COMMAND_TIMEOUT = 90.0
PLUGIN_TIMEOUT = 30.0

_REDIS_AWAY = (
    "The request could not be handed to the leader: Redis does not answer ({error}). Nothing was changed and running "
    "connectors go on. Check that Redis runs at RINGFENCE_REDIS_URL, then send the request again."
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What became of a command. `offset`: the last config-topic offset it wrote; `value`: what its kind answers."""

    offset: int | None = None
    value: Any = None


class Refused(Exception):
    """The command was not carried out, or nobody knows: `status` is the HTTP status, the message is for people.

    `retry`: the same request may succeed soon.
    """

    def __init__(self, status: int, message: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry = retry


def command(
    kind: str, connector: str | None, body: Mapping[str, Any], *, timeout: float = COMMAND_TIMEOUT, user: str = ""
) -> CommandResult:
    """Have the leader carry out a command. Raises Refused with Kafka Connect's status and words."""
    deadline = Deadline.after(timeout)
    request = {"kind": kind, "connector": connector, "body": dict(body), "user": user, "request_id": uuid.uuid4().hex}
    arguments = {"command": request, "deadline": time.time() + timeout}
    answer = _ask("ringfence.leader.command", "leader", arguments, deadline, f"the leader's answer to {kind!r}")
    offset = answer.get("offset")
    _wait_for_rows(answer, deadline)
    return CommandResult(offset if isinstance(offset, int) else None, answer.get("value"))


def list_plugins(*, timeout: float = PLUGIN_TIMEOUT) -> list[dict[str, Any]]:
    """Every installed plugin, as `GET /connector-plugins?connectorsOnly=false` lists them."""
    return cast(list[dict[str, Any]], _plugins("list", {}, timeout))


def config_keys(plugin: str, *, timeout: float = PLUGIN_TIMEOUT) -> list[dict[str, Any]]:
    """The key infos of a plugin. Refused with 404 for one that is not installed."""
    return cast(list[dict[str, Any]], _plugins("config_keys", {"plugin": plugin}, timeout))


def validate(plugin: str, config: Mapping[str, Any], *, timeout: float = PLUGIN_TIMEOUT) -> dict[str, Any]:
    """Kafka Connect's validation object: name, error_count, groups, configs."""
    body = {"plugin": plugin, "config": dict(config), "deadline": time.time() + timeout}
    return cast(dict[str, Any], _plugins("validate", body, timeout))


def _plugins(task: str, arguments: Mapping[str, Any], timeout: float) -> Any:
    awaited = f"a worker's plugin process ({task.replace('_', ' ')})"
    return _ask(f"ringfence.plugins.{task}", "plugins", arguments, Deadline.after(timeout), awaited).get("value")


def _ask(task: str, queue: str, arguments: Mapping[str, Any], deadline: Deadline, awaited: str) -> dict[str, Any]:
    try:
        result = app.send_task(
            task, kwargs=dict(arguments), queue=queue, expires=deadline.remaining, retry=False, ignore_result=False
        )
        try:
            answer = result.get(timeout=deadline.remaining, disable_sync_subtasks=False)
        except ResultTimeout as error:
            result.forget()
            raise Refused(500, timed_out(awaited)) from error
    except (BrokerError, redis.RedisError, OSError) as error:
        raise Refused(503, _REDIS_AWAY.format(error=type(error).__name__), retry=True) from error
    except RuntimeError as error:
        # Celery's own word for a result store that stayed away while it was waited for.
        raise Refused(500, f"{timed_out(awaited)} The result store failed meanwhile.") from error
    if not isinstance(answer, dict):
        raise Refused(500, f"{awaited} has an unexpected form. Look again before sending the request once more.")
    if answer.get("ok") is True:
        return answer
    raise Refused(int(answer.get("status") or 500), str(answer.get("message") or ""), retry=bool(answer.get("retry")))


def timed_out(awaited: str) -> str:
    """The message of an unknown outcome; it begins as Kafka Connect's does."""
    return (
        f"Request timed out. It waited for {awaited}. Whether the request was carried out is unknown: "
        "look again before sending it once more."
    )


def _wait_for_rows(answer: Mapping[str, Any], deadline: Deadline) -> None:
    """Wait until the database shows what was written: `offset` of the config topic, and `offsets_end`.

    `offsets_end`: {partition: next offset} of the offsets topic, for commands that write source offsets.
    """
    waits: list[tuple[str, int, int]] = []
    if isinstance(answer.get("offset"), int):
        waits.append(("config", 0, int(answer["offset"]) + 1))
    ends = answer.get("offsets_end")
    if isinstance(ends, dict):
        waits += [("offsets", int(partition), int(end)) for partition, end in ends.items()]
    for role, partition, end in waits:
        _wait_for(role, partition, end, deadline)


def _wait_for(role: str, partition: int, end: int, deadline: Deadline) -> None:
    pause = 0.002
    while positions.applied(role, partition) < end:
        if deadline.expired:
            raise Refused(
                500,
                f"Request timed out. It was written to Kafka, and the database does not show it yet: waited for offset "
                f"{end - 1} of the {role} topic. It holds; look again.",
            )
        time.sleep(deadline.slice(pause))
        pause = min(pause * 1.5, 0.1)
