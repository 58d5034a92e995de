"""The web side of a command: ask the leader over Celery, then wait until the database shows what was written.

1 send `ringfence.leader.command` to the queue `leader` with a deadline on Redis' clock, 2 wait for its answer, 3 wait
until the projection has passed the offsets that the answer names (read-your-writes). A command that ran out of time is
unknown, never "failed": the message says what was waited for.

While the leader changes, a command bounces off: nothing was changed, and the answer says so (`passing`). Such a command
is sent again, as a new one, until the same deadline.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import redis
from celery import Celery
from kombu.exceptions import OperationalError as BrokerError

from ringfence import messages, redis_clock
from ringfence.celery import REDIS_URL
from ringfence.celery import app as ringfence_app
from ringfence.encryption import NoKey
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import Deadline
from ringfence.heartbeats.look import look
from ringfence.projection import positions, topic_memory
from ringfence.quotas import COMMANDS, QUESTIONS, Lane, TooMany

COMMAND_TIMEOUT = 90.0
PLUGIN_TIMEOUT = 30.0
TAIL_TIMEOUT = 13.0

_REDIS_AWAY = (
    "The request could not be handed to the leader: Redis does not answer ({error}). Nothing was changed and running "
    "connectors go on. Check that Redis runs at RINGFENCE_REDIS_URL, then send the request again."
)

_RESULT_LOST = (
    "Request timed out. Redis went away while it waited for {awaited}. Whether the request was carried out is unknown: "
    "look again before sending it once more."
)
_RESULT_KEY = "celery-task-meta-"
_AWAY_SECONDS = 5.0
_BACKOFF = Backoff(0.05, 0.5)
_READ_EARLY, _REPLAY_EARLY = 3.0, 5.0
_TOO_LATE_SECONDS = 2.0
"""With less time than this a command is not sent again: "nothing was changed" is a better answer than "unknown"."""
_ONCE_MORE = {"max_retries": 1, "interval_start": 0, "interval_step": 0}


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What became of a command. `offset`: the last config-topic offset it wrote; `value`: what its kind answers."""

    offset: int | None = None
    value: Any = None


class Refused(Exception):
    """The command was not carried out, or nobody knows: `status` is the HTTP status, the message is for people.

    `retry`: the same request may succeed soon; `passing`: and nothing was changed, so it is repeated here.
    """

    def __init__(self, status: int, message: str, *, retry: bool = False, passing: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry = retry
        self.passing = passing


def command(
    kind: str, connector: str | None, body: Mapping[str, Any], *, timeout: float = COMMAND_TIMEOUT, user: str = ""
) -> CommandResult:
    """Have the leader carry out a command. Raises Refused with Kafka Connect's status and words."""
    if (lost := topic_memory.find_lost()) is not None:
        raise Refused(503, f"Nothing was changed. {lost.reason}")
    if kind != "ping":
        _refuse_in_vain(leader=True)
    deadline = Deadline.after(timeout)
    request = {"kind": kind, "connector": connector, "body": dict(body), "user": user}

    def ask() -> dict[str, Any]:
        arguments = {"command": {**request, "request_id": uuid.uuid4().hex}}
        queue = "health" if kind == "ping" else "leader"
        return _ask("ringfence.leader.command", queue, arguments, deadline, f"the leader's answer to {kind!r}")

    with nullcontext() if kind == "ping" else _turn(COMMANDS):
        answer = _repeat(ask, deadline)
        offset = answer.get("offset")
        _wait_for_rows(answer, deadline)
    return CommandResult(offset if isinstance(offset, int) else None, answer.get("value"))


def list_plugins(*, timeout: float = PLUGIN_TIMEOUT) -> list[dict[str, Any]]:
    """Every installed plugin, as `GET /connector-plugins?connectorsOnly=false` lists them."""
    return cast(list[dict[str, Any]], _plugins("list", {}, timeout))


def config_keys(
    plugin: str, *, timeout: float = PLUGIN_TIMEOUT, common: bool = False, version: str | None = None
) -> list[dict[str, Any]]:
    """The key infos of a plugin's own settings; with `common`, of all that it takes.

    Refused with 404 for one that is not installed, with 400 where the version is another.
    """
    body = {"plugin": plugin, "common": common, "version": version}
    return cast(list[dict[str, Any]], _plugins("config_keys", body, timeout))


def validate(
    plugin: str, config: Mapping[str, Any], *, java: bool, timeout: float = PLUGIN_TIMEOUT, ask_brokers: bool = True
) -> dict[str, Any]:
    """Kafka Connect's validation object: name, error_count, groups, configs.

    `java`: whether a Java plugin may be asked; refused with 403 where the class is one and it may not.
    `ask_brokers`: preflight's certain failures are errors, too; without, it is quicker, as for a form on each change.
    """
    body = {"plugin": plugin, "config": dict(config), "ask_brokers": ask_brokers, "java": java}
    return cast(dict[str, Any], _plugins("validate", body, timeout))


def offsets(connector: str, config: Mapping[str, str], *, timeout: float = PLUGIN_TIMEOUT) -> list[dict[str, Any]]:
    """The committed source offsets as a worker reads them from Kafka: those in a topic of the connector's own first."""
    body = {"connector": connector, "config": dict(config)}
    return cast(list[dict[str, Any]], _plugins("offsets", body, timeout))


def preflight(config: Mapping[str, str], *, java: bool, timeout: float = PLUGIN_TIMEOUT) -> list[dict[str, Any]]:
    """The preflight checks of a configuration: name, result, message, remedy, key. `java`: as in `validate`."""
    body = {"config": dict(config), "java": java}
    return cast(list[dict[str, Any]], _plugins("preflight", body, timeout))


def preview(
    config: Mapping[str, str],
    secret: list[str],
    bounds: Mapping[str, float],
    *,
    fresh: bool,
    java: bool,
    timeout: float = 40.0,
) -> dict[str, Any]:
    """The first records of a configuration, or `{"busy": connector}`; see `engine.previews`. java: see `validate`."""
    body = {"config": dict(config), "secret": secret, "bounds": dict(bounds), "fresh": fresh, "java": java}
    return cast(dict[str, Any], _plugins("preview", body, timeout))


def try_transforms(
    config: Mapping[str, str], record: Mapping[str, Any], secret: list[str], *, timeout: float = PLUGIN_TIMEOUT
) -> dict[str, Any]:
    """What transforms and converters make of a sample record, step by step; see `engine.plugins.trial`."""
    body = {"config": dict(config), "record": dict(record), "secret": secret}
    return cast(dict[str, Any], _plugins("try_transforms", body, timeout))


def transactions(
    connector: str,
    tasks: int,
    config: Mapping[str, str],
    *,
    earlier: Sequence[Mapping[str, str]] = (),
    timeout: float = PLUGIN_TIMEOUT,
) -> list[dict[str, Any]]:
    """What the coordinators know of the ids of tasks 0..tasks-1: id, task, state, open, producer_id, epoch, age_ms …

    earlier: the configurations of older generations that may be alive, perhaps on other clusters.
    """
    body = {"connector": connector, "tasks": tasks, "config": dict(config)}
    before = {"earlier": [dict(one) for one in earlier]} if earlier else {}
    return cast(list[dict[str, Any]], _plugins("transactions", {**body, **before}, timeout))


def hanging(
    connector: str,
    tasks: int,
    configs: Sequence[Mapping[str, str]],
    topics: Sequence[str],
    *,
    timeout: float = PLUGIN_TIMEOUT,
) -> list[dict[str, Any]]:
    """Open transactions on a connector's topics that no coordinator knows (KIP-664)."""
    body = {"connector": connector, "tasks": tasks, "configs": [dict(one) for one in configs], "topics": list(topics)}
    return cast(list[dict[str, Any]], _plugins("hanging", body, timeout))


def last_records(
    topic: str, config: Mapping[str, str], *, committed_only: bool, timeout: float = TAIL_TIMEOUT
) -> dict[str, Any]:
    """The last records of a topic that a connector of this configuration writes to; see `engine.topic_tail`."""
    body = {"topic": topic, "config": dict(config), "committed_only": committed_only}
    return cast(dict[str, Any], _plugins("last_records", body, timeout, early=_READ_EARLY))


def share_groups(*, timeout: float = TAIL_TIMEOUT) -> dict[str, Any]:
    """The cluster's share groups, and its `group.id`; see `engine.queries.share_groups`."""
    return cast(dict[str, Any], _plugins("share_groups", {}, timeout, early=_READ_EARLY))


def share_group(group: str, act: Mapping[str, Any] | None = None, *, timeout: float = TAIL_TIMEOUT) -> dict[str, Any]:
    """One share group; with `act`, what that would do. Refused with 404 where it is not there."""
    body = {"group": group, "act": None if act is None else dict(act)}
    return cast(dict[str, Any], _plugins("share_group", body, timeout, early=_READ_EARLY))


def share_timeline(group: str, topic: str, partition: int, *, timeout: float = TAIL_TIMEOUT) -> dict[str, Any]:
    """The steps of one share-partition that are persisted; see `engine.queries.share_state`."""
    body = {"group": group, "topic": topic, "partition": partition}
    return cast(dict[str, Any], _plugins("share_timeline", body, timeout, early=_READ_EARLY))


def dead_letters(asked: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """A page of a connector's dead letters; see `engine.dead_letters`."""
    return cast(dict[str, Any], _plugins("dead_letters", asked, timeout, early=_READ_EARLY))


def replay(asked: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """Dead letters taken again. Not sent again by itself: the second would find only what the first one did."""
    _refuse_in_vain(leader=False)
    with _turn(QUESTIONS):
        deadline = Deadline.after(timeout)
        answer = _ask("ringfence.plugins.replay", "plugins", asked, deadline, "a worker's replay", _REPLAY_EARLY)
    return cast(dict[str, Any], answer["value"])


def _plugins(task: str, arguments: Mapping[str, Any], timeout: float, *, early: float = 0.0) -> Any:
    """`early`: so many seconds before we stop waiting the worker ends, and answers with what it has."""
    awaited = f"a worker's plugin process ({task.replace('_', ' ')})"
    _refuse_in_vain(leader=False)
    deadline = Deadline.after(timeout)

    def ask() -> dict[str, Any]:
        return _ask(f"ringfence.plugins.{task}", "plugins", arguments, deadline, awaited, early)

    with _turn(QUESTIONS):
        return _repeat(ask, deadline).get("value")


def _refuse_in_vain(*, leader: bool) -> None:
    """Raises Refused with 503 at once where nobody is there to take it. A leader who changes is waited for instead."""
    vitals = look.vitals()
    if reason := vitals.leader_refusal if leader else vitals.refusal:
        raise Refused(503, reason, retry=True)


@contextmanager
def _turn(lane: Lane) -> Iterator[None]:
    """Its turn among what the account has under way. Raises Refused with 429 where it has too much."""
    try:
        with lane.take():
            yield
    except TooMany as many:
        raise Refused(429, many.message, retry=True) from many


def _repeat(ask: Callable[[], dict[str, Any]], deadline: Deadline) -> dict[str, Any]:
    """Asks again while the answer is that nothing was changed and that the reason passes."""
    failures = 0
    while True:
        try:
            return ask()
        except Refused as refused:
            failures += 1
            pause = _BACKOFF.pause(failures)
            if not refused.passing or deadline.remaining <= pause + _TOO_LATE_SECONDS:
                raise
        time.sleep(pause)


def client(url: str) -> Celery:
    """A Celery application that sends, and stores no results.

    Celery's own waiting shares one subscription in a process, and that does not survive a restart of Redis. Here
    results are read from where the worker stores them.
    """
    made = Celery("ringfence-web", broker=url, set_as_current=False)
    messages.use(made)
    copied = ("task_create_missing_queues", "broker_transport_options", "enable_utc")
    made.conf.update({name: ringfence_app.conf[name] for name in copied})
    return made


app = client(REDIS_URL)


store = redis_clock.connect
"""Where workers put results."""

results = store(REDIS_URL)


def _ask(
    task: str, queue: str, arguments: Mapping[str, Any], deadline: Deadline, awaited: str, early: float = 0.0
) -> dict[str, Any]:
    try:
        # Before anything is sent: what a Redis that hangs has taken is carried out when it wakes up.
        there = redis_clock.now(results)
    except redis.RedisError as error:
        raise Refused(503, _REDIS_AWAY.format(error=type(error).__name__), retry=True) from error
    try:
        sent = app.send_task(
            task,
            # No `expires` of Celery's, which compares clocks of two machines: the worker looks at the deadline.
            kwargs={**arguments, "deadline": there + deadline.remaining - early},
            queue=queue,
            retry=True,
            retry_policy=_ONCE_MORE,
        )
    except NoKey as error:
        raise Refused(503, f"{error}. Nothing was sent, and running connectors go on.") from error
    except (BrokerError, redis.RedisError, OSError) as error:
        raise Refused(500, _RESULT_LOST.format(awaited=awaited)) from error
    stored = _result(str(sent.id), deadline, awaited)
    answer = stored.get("result")
    if stored.get("status") != "SUCCESS" or not isinstance(answer, dict):
        raise Refused(500, f"{awaited} failed inside the worker, whose log says why. Look again before another try.")
    if answer.get("ok") is True:
        return answer
    retry, passing = bool(answer.get("retry")), bool(answer.get("passing"))
    raise Refused(int(answer.get("status") or 500), str(answer.get("message") or ""), retry=retry, passing=passing)


def _result(task_id: str, deadline: Deadline, awaited: str) -> dict[str, Any]:
    """The task's stored result, asked for in short, growing pauses; Redis may be away for a moment in the meantime."""
    key, pause, seen = _RESULT_KEY + task_id, 0.002, time.monotonic()
    while not deadline.expired:
        try:
            raw = results.get(key)
            seen = time.monotonic()
        except redis.RedisError as error:
            if time.monotonic() - seen > _AWAY_SECONDS:
                raise Refused(500, _RESULT_LOST.format(awaited=awaited)) from error
            raw = None
        if isinstance(raw, bytes):
            return _read(key, task_id, raw)
        time.sleep(deadline.slice(pause))
        pause = min(pause * 1.3, 0.05)
    raise Refused(500, timeout_message(awaited))


def _read(key: str, task_id: str, raw: bytes) -> dict[str, Any]:
    """An answer leaves Redis once it is read. One that is not a worker's is none."""
    with contextlib.suppress(redis.RedisError):  # then it goes when its time is over
        results.delete(key)
    try:
        stored = messages.decode(raw)
    except ValueError as error:
        raise Refused(500, f"The answer in Redis cannot be read: {error}. Look again before another try.") from error
    if not isinstance(stored, dict) or stored.get("task_id") != task_id:
        raise Refused(500, "The answer in Redis belongs to another request. Look again before another try.")
    return stored


def timeout_message(awaited: str) -> str:
    """The message of an unknown outcome; it begins as Kafka Connect's does."""
    return (
        f"Request timed out. It waited for {awaited}. Whether the request was carried out is unknown: "
        "look again before sending it once more."
    )


def _wait_for_rows(answer: Mapping[str, Any], deadline: Deadline) -> None:
    """Wait until the database shows what was written: `offset` of the config topic, `offsets_end` and `status_end`.

    The latter: {partition: next offset} of the offsets or status topic, for commands that write there.
    """
    waits: list[tuple[str, int, int]] = []
    if isinstance(answer.get("offset"), int):
        waits.append(("config", 0, int(answer["offset"]) + 1))
    for role in ("offsets", "status"):
        ends = answer.get(f"{role}_end")
        if isinstance(ends, dict):
            waits += [(role, int(partition), int(end)) for partition, end in ends.items()]
    for role, partition, end in waits:
        _wait_for(role, partition, end, deadline)


def _wait_for(role: str, partition: int, end: int, deadline: Deadline) -> None:
    pause = 0.002
    while positions.shown_offset(role, partition) < end:
        if deadline.expired:
            raise Refused(
                500,
                f"Request timed out. It was written to Kafka, and the database does not show it yet: waited for offset "
                f"{end - 1} of the {role} topic. It holds; look again.",
            )
        time.sleep(deadline.slice(pause))
        pause = min(pause * 1.5, 0.1)
