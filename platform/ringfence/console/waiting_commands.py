"""Commands that wait in Redis for a leader: their senders and deadlines, and how to cancel one."""

import base64
import json
from dataclasses import dataclass
from typing import Any

import redis

from ringfence import messages, redis_clock, transport
from ringfence.dispatch import Refusal

_QUEUE = "leader"
_MOST = 500
_AWAY = "Redis does not answer ({error}), so it is unknown what waits there. Check that it runs at RINGFENCE_REDIS_URL"


@dataclass(frozen=True, slots=True)
class QueuedCommand:
    """A command that no leader has taken yet. left_s: seconds until it expires."""

    id: str
    kind: str
    connector: str
    user: str
    left_s: float


def list_queued_commands() -> list[QueuedCommand]:
    """Return the commands, oldest first, at most 500, without their bodies. Raises `Refusal` if Redis
    does not answer.
    """
    try:
        raw = transport.results.lrange(_QUEUE, -_MOST, -1)
        now = redis_clock.now(transport.results)
    except redis.RedisError as error:
        raise Refusal(503, _AWAY.format(error=type(error).__name__)) from error
    assert isinstance(raw, list)
    commands = [_read(entry, now) for entry in reversed(raw)]  # the newest is at the left end of Redis' list
    return [one for one in commands if one is not None]


def cancel(number: str, by: str) -> bool:
    """Remove a command from the queue, and inform its sender. Returns False if a leader has already taken it."""
    try:
        entries = transport.results.lrange(_QUEUE, 0, -1)
        assert isinstance(entries, list)
        for entry in entries:
            command = _read(entry, 0)
            if command is not None and command.id == number:
                removed = transport.results.lrem(_QUEUE, 1, entry) == 1  # type: ignore[arg-type]
                if removed:
                    _answer(number, by)
                return removed
    except redis.RedisError as error:
        raise Refusal(503, _AWAY.format(error=type(error).__name__)) from error
    return False


def _answer(number: str, by: str) -> None:
    message = (
        f"The request was taken back in the console by {by or 'somebody'} before a leader took it: nothing was changed."
    )
    result = {"ok": False, "status": 409, "message": message, "retry": False, "passing": False}
    meta: dict[str, Any] = {
        "task_id": number,
        "status": "SUCCESS",
        "result": result,
        "traceback": None,
        "children": [],
    }
    transport.results.set(f"celery-task-meta-{number}", messages.encode(meta), ex=messages.ANSWER_SECONDS)


def _read(entry: Any, now: float) -> QueuedCommand | None:
    """Parse a message in kombu's format, at a time on Redis' clock. Returns None if it is not a command."""
    try:
        message = json.loads(entry)
        _, arguments, _ = messages.decode(base64.b64decode(message["body"]))
        command = arguments["command"]
        return QueuedCommand(
            str(message["headers"]["id"]),
            str(command["kind"]),
            str(command.get("connector") or ""),
            str(command.get("user") or ""),
            float(arguments["deadline"]) - now,
        )
    except (ValueError, KeyError, TypeError):
        return None
