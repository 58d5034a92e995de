"""The status topic's records, in Kafka Connect's format with our extra fields, and the state they fold into.

Keys: `status-connector-<c>`, `status-task-<c>-<n>`, `status-topic-<t>:connector-<c>` (Connect's), `worker-<id>`,
`leader` and `topic-ids` (ours; Connect passes them over). A tombstone removes the entry. `generation` is the
connector's generation (a config-topic offset), -1 where it is not known.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import cast

from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.topics import active_topics, topic_ids
from ringfence.fencing.topics.active_topics import TopicStatus
from ringfence.fencing.topics.topic_ids import TopicIds

PLACED = "placed"
RESTARTED = "restarted"
STARTING = "starting"
SUPERSEDED = "superseded"
LOST = "lost"
FAILED = "failed"
MISCONFIGURED = "misconfigured"


Attempt = tuple[TaskId, Generation, int]
"""One attempt of a task: its generation and its number in it."""


class State(StrEnum):
    """Kafka Connect's states of connectors and tasks; no others, since older clients choke on new ones."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    UNASSIGNED = "UNASSIGNED"
    RESTARTING = "RESTARTING"


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """`status-connector-<c>`."""

    connector: ConnectorName
    state: State
    worker: WorkerId
    generation: Generation
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """`status-task-<c>-<n>`. (generation, attempt) tell which placement it speaks of.

    ended: the attempt is over (it never produces again); why: a short machine word for the end or the wait
    (the constants above); since_ms: wall clock of the change; restarts: automatic ones in a row, this attempt
    included; next_ms: wall clock of the next one, 0 where none is to come; version: the plugin's; left_open: it ended,
    and a transaction of its transactional id may still be open.
    """

    task: TaskId
    state: State
    worker: WorkerId
    generation: Generation
    attempt: int
    incarnation: Incarnation
    trace: str | None = None
    ended: bool = False
    why: str = ""
    since_ms: int = 0
    restarts: int = 0
    next_ms: int = 0
    version: str | None = None
    left_open: bool = False

    @property
    def key(self) -> Attempt:
        """Which attempt speaks."""
        return self.task, self.generation, self.attempt

    @property
    def at_work(self) -> bool:
        """It has begun, and may have a transaction open."""
        return self.state in (State.RUNNING, State.PAUSED) and not self.ended


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """`worker-<id>`: a member's own description, joined with the group's members by its incarnation.

    away_until_ms: until then it counts as live without a seat in the group, which it left to hand the leadership over.
    """

    worker: WorkerId
    incarnation: Incarnation
    mode: str
    slots: int
    version: str
    since_ms: int
    away_until_ms: int = 0


@dataclass(frozen=True, slots=True)
class LeaderRecord:
    """`leader`: who leads, for people to see. Nothing is ever decided by it."""

    worker: WorkerId
    incarnation: Incarnation
    group_generation: int
    since_ms: int
    topic_tracking: bool = True


@dataclass(frozen=True, slots=True)
class Removed:
    """A tombstone under the given key."""

    key: str


StatusRecord = ConnectorStatus | TaskStatus | TopicStatus | WorkerRecord | LeaderRecord | TopicIds | Removed


def encode(record: StatusRecord) -> tuple[bytes, bytes | None]:
    """Key and value of a status-topic record."""
    fields: dict[str, object]
    match record:
        case ConnectorStatus(connector, state, worker, generation, trace, version):
            fields = {"state": state, "trace": trace, "worker_id": worker, "generation": generation}
            fields["version"] = version
            return f"status-connector-{connector}".encode(), _json(fields)
        case TaskStatus():
            fields = {
                "state": record.state,
                "trace": record.trace,
                "worker_id": record.worker,
                "generation": record.generation,
                "attempt": record.attempt,
                "incarnation": record.incarnation,
                "ended": record.ended,
                "why": record.why,
                "since_ms": record.since_ms,
                "restarts": record.restarts,
                "next_ms": record.next_ms,
                "version": record.version,
            }
            fields |= {"left_open": True} if record.left_open else {}
            return f"status-task-{record.task}".encode(), _json(fields)
        case TopicStatus():
            return record.key.encode(), _json(record.fields())
        case WorkerRecord():
            fields = {
                "incarnation": record.incarnation,
                "mode": record.mode,
                "slots": record.slots,
                "version": record.version,
                "since_ms": record.since_ms,
            }
            fields |= {"away_until_ms": record.away_until_ms} if record.away_until_ms else {}
            return f"worker-{record.worker}".encode(), _json(fields)
        case LeaderRecord():
            fields = {
                "worker_id": record.worker,
                "incarnation": record.incarnation,
                "group_generation": record.group_generation,
                "since_ms": record.since_ms,
                "topic_tracking": record.topic_tracking,
            }
            return b"leader", _json(fields)
        case TopicIds():
            return topic_ids.KEY.encode(), topic_ids.dumps(record)
        case Removed(key):
            return key.encode(), None


def _json(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def decode(key: bytes | None, value: bytes | None) -> StatusRecord | None:
    """One status-topic record; None for one that is not ours to understand.

    Statuses are reports, not instructions: an unreadable one is passed over, as Kafka Connect does.
    """
    try:
        text = (key or b"").decode()
        if value is None:
            return Removed(text)
        if text == topic_ids.KEY:
            return topic_ids.loads(value)
        loaded = json.loads(value)
        return _decode(text, cast(dict[str, object], loaded)) if isinstance(loaded, dict) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _decode(text: str, value: dict[str, object]) -> StatusRecord | None:
    def number(name: str, default: int = -1) -> int:
        item = value.get(name, default)
        return item if isinstance(item, int) else default

    def text_of(name: str) -> str | None:
        item = value.get(name)
        return str(item) if item else None

    shown, version = text_of("trace"), text_of("version")
    if text.startswith("status-connector-"):
        name = ConnectorName(text.removeprefix("status-connector-"))
        worker = WorkerId(str(value["worker_id"]))
        generation = Generation(number("generation"))
        return ConnectorStatus(name, State(str(value["state"])), worker, generation, shown, version)
    if text.startswith("status-task-"):
        connector, dash, task = text.removeprefix("status-task-").rpartition("-")
        if not dash or not (task.isascii() and task.isdigit()):
            return None
        return TaskStatus(
            TaskId(ConnectorName(connector), int(task)),
            State(str(value["state"])),
            WorkerId(str(value["worker_id"])),
            Generation(number("generation")),
            number("attempt", 0),
            Incarnation(str(value.get("incarnation", ""))),
            shown,
            bool(value.get("ended")),
            str(value.get("why", "")),
            number("since_ms", 0),
            number("restarts", 0),
            number("next_ms", 0),
            version,
            value.get("left_open") is True,
        )
    if text.startswith("worker-"):
        return WorkerRecord(
            WorkerId(text.removeprefix("worker-")),
            Incarnation(str(value["incarnation"])),
            str(value.get("mode", "enabled")),
            number("slots", 0),
            str(value.get("version", "")),
            number("since_ms", 0),
            number("away_until_ms", 0),
        )
    if text == "leader":
        return LeaderRecord(
            WorkerId(str(value["worker_id"])),
            Incarnation(str(value["incarnation"])),
            number("group_generation"),
            number("since_ms", 0),
            value.get("topic_tracking") is not False,
        )
    return active_topics.decode(text, value)


@dataclass(frozen=True, slots=True)
class StatusState:
    """The status topic, folded: the newest record under each key.

    leaving: attempts that were at work when a newer one was announced, and have not said that they have ended. A round
    gives them their moment; nothing else is decided by them.
    """

    connectors: Mapping[ConnectorName, ConnectorStatus] = field(default_factory=dict)
    tasks: Mapping[TaskId, TaskStatus] = field(default_factory=dict)
    workers: Mapping[WorkerId, WorkerRecord] = field(default_factory=dict)
    leader: LeaderRecord | None = None
    topics: Mapping[ConnectorName, frozenset[str]] = field(default_factory=dict)
    leaving: Mapping[Attempt, TaskStatus] = field(default_factory=dict)
    topic_ids: TopicIds | None = None

    def at_work(self, connector: ConnectorName) -> Iterator[TaskStatus]:
        """The last reports of the connector's attempts that have begun and, as far as anybody knows, not ended."""
        known = (*self.tasks.values(), *self.leaving.values())
        return (found for found in known if found.task.connector == connector and found.at_work)


def replaces(record: TaskStatus, held: TaskStatus | None) -> bool:
    """Whether a report replaces the one that is held: reports of zombies and of older attempts come late.

    Every reader of the topic must ask: the newest record under a key may be a zombie's.
    """
    same = held is not None and (record.generation, record.attempt) == (held.generation, held.attempt)
    if record.why == SUPERSEDED:
        return same
    if held is None:
        return True
    announced = record.why in (PLACED, RESTARTED)
    if record.generation == held.generation:
        # Announced before the attempt runs, but it may be delivered after the attempt's first own report.
        return record.attempt > held.attempt or (same and not announced)
    return announced or record.since_ms >= held.since_ms


def _leaving(state: StatusState, record: TaskStatus) -> Mapping[Attempt, TaskStatus]:
    """Who is leaving after this report: its own attempt not, and nobody of a task whose newest attempt is at work."""
    held = state.tasks.get(record.task)
    left = {key: found for key, found in state.leaving.items() if key != record.key}
    if not replaces(record, held):
        return left
    if record.at_work:  # it has fenced all attempts before it
        return {key: found for key, found in left.items() if found.task != record.task}
    if held is not None and held.at_work and held.key != record.key:
        left[held.key] = held
    return left


def apply(state: StatusState, record: StatusRecord | None) -> StatusState:
    """The state after one more record."""
    match record:
        case None:
            return state
        case ConnectorStatus():
            return replace(state, connectors={**state.connectors, record.connector: record})
        case TaskStatus():
            leaving = _leaving(state, record)
            if not replaces(record, state.tasks.get(record.task)):
                return state if leaving == state.leaving else replace(state, leaving=leaving)
            return replace(state, tasks={**state.tasks, record.task: record}, leaving=leaving)
        case TopicStatus(connector, topic):
            known = state.topics.get(connector, frozenset())
            return replace(state, topics={**state.topics, connector: known | {topic}})
        case WorkerRecord():
            return replace(state, workers={**state.workers, record.worker: record})
        case LeaderRecord():
            return replace(state, leader=record)
        case TopicIds():
            return replace(state, topic_ids=record)
        case Removed(key):
            return replace(
                state,
                connectors={n: s for n, s in state.connectors.items() if f"status-connector-{n}" != key},
                tasks={t: s for t, s in state.tasks.items() if f"status-task-{t}" != key},
                leaving={a: s for a, s in state.leaving.items() if f"status-task-{s.task}" != key},
                workers={w: s for w, s in state.workers.items() if f"worker-{w}" != key},
                leader=None if key == "leader" else state.leader,
                topics=_without(state.topics, key),
            )


def _without(topics: Mapping[ConnectorName, frozenset[str]], key: str) -> Mapping[ConnectorName, frozenset[str]]:
    parts = active_topics.parts_of(key)
    if parts is None:
        return topics
    connector, topic = parts
    left = {**topics, connector: topics.get(connector, frozenset()) - {topic}}
    return {name: names for name, names in left.items() if names}
