"""The config topic's keys and values, both ways, in Kafka Connect's formats.

Keys are parsed into one small class each; values are JSON objects. `decode` never guesses: a known key with a value
that cannot be read raises `Unreadable`, an unknown key gives `UnknownKey`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

from ringfence.fencing.errors import Unreadable
from ringfence.fencing.ids import NO_GENERATION, NOBODY, ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.modes import Mode
from ringfence.fencing.topics import topic_ids
from ringfence.fencing.topics.active_topics import TopicsResetRecord
from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
from ringfence.fencing.topics.log_levels import LoggerRecord
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.fencing.topics.topic_grants import decode as topic_grant
from ringfence.fencing.topics.topic_ids import TopicIds


class TargetState(StrEnum):
    """What the user wants of a connector. The names are Kafka Connect's own in the config topic."""

    RUNNING = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class ConnectorRecord:
    """`connector-<c>`: the connector's configuration; None is a tombstone."""

    connector: ConnectorName
    config: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """`task-<c>-<n>`: one task's configuration. Counts from the next commit record on."""

    task: TaskId
    config: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """`commit-<c>`: the task records before it are complete; its offset names the generation."""

    connector: ConnectorName
    tasks: int


@dataclass(frozen=True, slots=True)
class TargetStateRecord:
    """`target-state-<c>`; None is a tombstone, which means RUNNING for a connector created again."""

    connector: ConnectorName
    state: TargetState | None


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """`restart-connector-<c>`: a request to restart, as Kafka Connect 3.0 and later write it."""

    connector: ConnectorName
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class TaskCountRecord:
    """`tasks-count-<c>` (ours) or `tasks-fencing-<c>` (Kafka Connect's, generation None): all before is fenced.

    target: the client settings under which that generation's tasks produce, empty for the worker's own cluster.
    elsewhere: whether any generation of this name had its offsets outside of the worker's topic; None: nobody knows.
    """

    connector: ConnectorName
    tasks: int
    generation: Generation | None
    target: Mapping[str, str] = field(default_factory=dict)
    elsewhere: bool | None = None


class Forgotten(StrEnum):
    """Which of a deleted connector's records a tombstone removes: the beginning of its key."""

    COMMIT = "commit-"
    COUNT = "tasks-count-"
    FENCING = "tasks-fencing-"


@dataclass(frozen=True, slots=True)
class ForgottenRecord:
    """The tombstone of one of a deleted connector's records."""

    connector: ConnectorName
    what: Forgotten


@dataclass(frozen=True, slots=True)
class PlacementRecord:
    """`placement-<c>-<n>`: the only attempt of a task that may run now; None worker is a tombstone.

    mode: the worker's, by which the attempt runs; after: the attempt that must have ended before this one may start,
    0 where it may at once.
    """

    task: TaskId
    worker: WorkerId | None
    incarnation: Incarnation = NOBODY
    attempt: int = 0
    generation: Generation = NO_GENERATION
    restarts: int = 0
    placed_ms: int = 0
    mode: Mode = Mode.ENABLED
    after: int = 0


@dataclass(frozen=True, slots=True)
class SessionKeyRecord:
    """`session-key` (KIP-507). key: base64, a secret."""

    key: str = field(repr=False)
    algorithm: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class DrainRecord:
    """`drain-worker-<id>`: this incarnation of the worker gets no tasks; None is a tombstone, which ends it."""

    worker: WorkerId
    incarnation: Incarnation | None
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """A key that neither Ringfence nor Kafka Connect 4.3 is known to write: kept, and warned about."""

    key: str


ConfigRecord = (
    ConnectorRecord
    | TaskRecord
    | CommitRecord
    | TargetStateRecord
    | RestartRecord
    | TaskCountRecord
    | ForgottenRecord
    | PlacementRecord
    | TopicsResetRecord
    | ConnectorLevelRecord
    | TopicGrantRecord
    | LoggerRecord
    | SessionKeyRecord
    | DrainRecord
    | TopicIds
    | UnknownKey
)

_PREFIXES = (
    "tasks-count-",
    "tasks-fencing-",
    "target-state-",
    "restart-connector-",
    "placement-",
    "topics-reset-",
    "topic-grant-",
    "connector-",
    "commit-",
    "log-level-",
    "task-",
)

LOGGER = "logger-cluster-"
DRAIN = "drain-worker-"
SESSION_KEY = b"session-key"
_TASK_DIGITS = 9


def _split(key: str) -> tuple[str, str]:
    for prefix in _PREFIXES:
        if key.startswith(prefix) and len(key) > len(prefix):
            return prefix, key[len(prefix) :]
    return "", key


def _task_of(rest: str) -> TaskId | None:
    name, _, number = rest.rpartition("-")
    readable = name and number.isascii() and number.isdigit() and len(number) <= _TASK_DIGITS
    return TaskId(ConnectorName(name), int(number)) if readable else None


def connector_of(key: bytes) -> ConnectorName | None:
    """The connector that a config-topic key belongs to; None where the key names none."""
    try:
        prefix, rest = _split(key.decode())
    except UnicodeDecodeError:
        return None
    if prefix in ("task-", "placement-"):
        task = _task_of(rest)
        return task.connector if task else None
    return ConnectorName(rest) if prefix else None


def _strings(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise TypeError("an object of strings is expected")
    return {
        str(key): item if isinstance(item, str) else json.dumps(item) for key, item in value.items() if item is not None
    }


def _integer(value: Mapping[str, object], name: str) -> int:
    item = value[name]
    if isinstance(item, bool) or not isinstance(item, int) or item < 0:
        raise ValueError(f"{name} is no integer")
    return item


def decode(key: bytes | None, value: bytes | None) -> ConfigRecord:
    """One config-topic record. Raises `Unreadable` for a known key whose value cannot be read."""
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        return UnknownKey(repr(key))
    try:
        return _decode(text, value)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        shown = "nothing" if value is None else f"{len(value)} bytes"
        raise Unreadable(f"key {text!r} holds {shown} that cannot be read: {error}") from error


def _decode(text: str, raw: bytes | None) -> ConfigRecord:
    value: dict[str, object] = {}
    if text == topic_ids.KEY:
        # One that cannot be read is like none: the other topics and the database remember, too.
        return topic_ids.loads(raw) or UnknownKey(text)
    prefix, rest = _split(text)
    if not prefix and text != "session-key" and not text.startswith((LOGGER, DRAIN)):
        return UnknownKey(text)
    if raw is not None:
        loaded: object = json.loads(raw)
        if not isinstance(loaded, dict):
            raise ValueError("a JSON object is expected")
        value = cast(dict[str, object], loaded)
    name = ConnectorName(rest)
    match prefix:
        case "connector-":
            return ConnectorRecord(name, None if raw is None else _strings(value["properties"]))
        case "task-":
            task = _task_of(rest)
            if task is None:
                return UnknownKey(text)
            return TaskRecord(task, None if raw is None else _strings(value["properties"]))
        case "commit-":
            return (
                ForgottenRecord(name, Forgotten.COMMIT) if raw is None else CommitRecord(name, _integer(value, "tasks"))
            )
        case "target-state-":
            return TargetStateRecord(
                name, None if raw is None else TargetState(str(value.get("state.v2") or value["state"]))
            )
        case "restart-connector-":
            if raw is None:
                return UnknownKey(text)
            return RestartRecord(name, bool(value.get("include-tasks")), bool(value.get("only-failed")))
        case "tasks-fencing-":
            if raw is None:
                return ForgottenRecord(name, Forgotten.FENCING)
            return TaskCountRecord(name, _integer(value, "task-count"), None)
        case "tasks-count-":
            if raw is None:
                return ForgottenRecord(name, Forgotten.COUNT)
            generation = Generation(_integer(value, "generation")) if "generation" in value else None
            elsewhere = bool(value["elsewhere"]) if "elsewhere" in value else None
            target = _strings(value.get("target", {}))
            return TaskCountRecord(name, _integer(value, "tasks"), generation, target, elsewhere)
        case "placement-":
            return _placement(text, rest, value, raw is None)
        case "topics-reset-":
            return TopicsResetRecord(name, None if raw is None else _integer(value, "time_ms"))
        case "log-level-":
            if raw is None:
                return ConnectorLevelRecord(name, None)
            return ConnectorLevelRecord(name, str(value["level"]), _integer(value, "until_ms"))
        case "topic-grant-":
            return TopicGrantRecord(name, None) if raw is None else topic_grant(name, value)
        case _ if text.startswith(LOGGER):
            return LoggerRecord(text.removeprefix(LOGGER), None if raw is None else str(value["level"]))
        case _ if text.startswith(DRAIN):
            worker = WorkerId(text.removeprefix(DRAIN))
            if raw is None:
                return DrainRecord(worker, None)
            return DrainRecord(worker, Incarnation(str(value["incarnation"])), _integer(value, "since_ms"))
        case _:
            if raw is None:
                return UnknownKey(text)
            return SessionKeyRecord(str(value["key"]), str(value["algorithm"]), _integer(value, "creation-timestamp"))


def _placement(text: str, rest: str, value: dict[str, object], tombstone: bool) -> ConfigRecord:
    task = _task_of(rest)
    if task is None:
        return UnknownKey(text)
    if tombstone:
        return PlacementRecord(task, None)
    return PlacementRecord(
        task,
        WorkerId(str(value["worker"])),
        Incarnation(str(value["incarnation"])),
        _integer(value, "attempt"),
        Generation(_integer(value, "generation")),
        _integer(value, "restarts") if "restarts" in value else 0,
        _integer(value, "placed_ms") if "placed_ms" in value else 0,
        Mode(str(value.get("mode", Mode.ENABLED))),
        _integer(value, "after") if "after" in value else 0,
    )


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def encode(record: ConfigRecord) -> tuple[bytes, bytes | None]:
    """Key and value of a config-topic record, as Kafka Connect would write them."""
    match record:
        case ConnectorRecord(connector, config):
            return f"connector-{connector}".encode(), None if config is None else _json({"properties": dict(config)})
        case TaskRecord(task, config):
            return f"task-{task}".encode(), None if config is None else _json({"properties": dict(config)})
        case CommitRecord(connector, tasks):
            return f"commit-{connector}".encode(), _json({"tasks": tasks})
        case TargetStateRecord(connector, state):
            # Readers before KIP-875 know only `state`, and for them a stopped connector is a paused one.
            old = TargetState.PAUSED if state is TargetState.STOPPED else state
            both = {"state": old, "state.v2": state}
            return f"target-state-{connector}".encode(), None if state is None else _json(both)
        case RestartRecord(connector, include_tasks, only_failed):
            flags = {"include-tasks": include_tasks, "only-failed": only_failed}
            return f"restart-connector-{connector}".encode(), _json(flags)
        case TaskCountRecord(connector, tasks, None):
            return f"tasks-fencing-{connector}".encode(), _json({"task-count": tasks})
        case TaskCountRecord(connector, tasks, generation, target, elsewhere):
            counted: dict[str, object] = {"tasks": tasks, "generation": generation, "target": dict(target)}
            counted |= {} if elsewhere is None else {"elsewhere": elsewhere}
            return f"tasks-count-{connector}".encode(), _json(counted)
        case ForgottenRecord(connector, what):
            return f"{what}{connector}".encode(), None
        case PlacementRecord(task, None):
            return f"placement-{task}".encode(), None
        case PlacementRecord(task, worker, incarnation, attempt, generation):
            placed: dict[str, object] = {"worker": worker, "incarnation": incarnation, "attempt": attempt}
            placed["generation"] = generation
            placed |= {"restarts": record.restarts, "placed_ms": record.placed_ms, "mode": record.mode}
            placed |= {"after": record.after} if record.after else {}
            return f"placement-{task}".encode(), _json(placed)
        case TopicsResetRecord(connector, time_ms):
            return f"topics-reset-{connector}".encode(), None if time_ms is None else _json({"time_ms": time_ms})
        case ConnectorLevelRecord(connector, level, until_ms):
            told = None if level is None else _json({"level": level, "until_ms": until_ms})
            return f"log-level-{connector}".encode(), told
        case TopicGrantRecord(connector, patterns):
            return f"topic-grant-{connector}".encode(), None if patterns is None else _json(record.fields())
        case LoggerRecord(logger, level):
            return f"{LOGGER}{logger}".encode(), None if level is None else _json({"level": level})
        case SessionKeyRecord(key, algorithm, created_ms):
            return SESSION_KEY, _json({"key": key, "algorithm": algorithm, "creation-timestamp": created_ms})
        case DrainRecord(worker, drained, since_ms):
            told = None if drained is None else _json({"incarnation": drained, "since_ms": since_ms})
            return f"{DRAIN}{worker}".encode(), told
        case TopicIds():
            return topic_ids.KEY.encode(), topic_ids.dumps(record)
        case UnknownKey(key):
            raise ValueError(f"a record with the unknown key {key!r} is never written")
