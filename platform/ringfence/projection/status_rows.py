"""Writes the status topic as rows: states of connectors and tasks, their moves and starts, the workers, the leader, and
the connectors' active topics (KIP-558).
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from ringfence.connectors.plural_forms import write_count
from ringfence.encryption import encrypt_text
from ringfence.fencing.ids import ConnectorName, Generation, Incarnation, TaskId, WorkerId, parse_task
from ringfence.fencing.topics.active_topics import TopicStatus, parts_of
from ringfence.fencing.topics.status import (
    RESTARTED,
    ConnectorStatus,
    LeaderRecord,
    PollRetry,
    State,
    StatusRecord,
    StatusTombstone,
    SuspicionRecord,
    TaskStatus,
    Trust,
    WorkerRecord,
    decode,
    replaces,
)
from ringfence.plain_queries import among, insert, read, select, update, upsert
from ringfence.projection import endpoints
from ringfence.projection.health import RETRYING, refresh
from ringfence.projection.models import (
    ActiveTopic,
    ClusterInfo,
    Connector,
    Event,
    Startups,
    Suspicion,
    Task,
    Worker,
    pack,
)
from ringfence.projection.records import Record, clean
from ringfence.projection.stalls import NONE, LastFailure
from ringfence.projection.task_minutes import ITSELF, Minutes, shown_state

TOPIC_REPLACED = "topic replaced"
"""The kind of the event of a topic that was deleted and created again."""


def write_topics(records: Sequence[TopicStatus]) -> None:
    """Add topics, of which the first record counts, and notice those that were deleted and created again. Inside the
    transaction.
    """
    if not records:
        return
    newest: dict[tuple[str, str], TopicStatus] = {}
    for one in records:
        key = clean(one.connector), clean(one.topic)
        newest[key] = replace(one, since_ms=newest[key].since_ms if key in newest else one.since_ms)
    connectors, topics = {connector for connector, _ in newest}, {topic for _, topic in newest}
    condition = f"{among('connector', connectors)} AND {among('topic', topics)}"
    rows = read(ActiveTopic, condition, *connectors, *topics)
    known_topics = {(row.connector, row.topic): row for row in rows}
    new_rows = []
    for key, one in newest.items():
        row, topic_id = known_topics.get(key), clean(one.topic_id)
        if row is None:
            new_rows.append(ActiveTopic(connector=key[0], topic=key[1], since_ms=one.since_ms, topic_id=topic_id))
        elif topic_id and row.topic_id != topic_id:
            if row.topic_id:
                row.replaced_ms = one.since_ms
                Event.objects.create(
                    connector=row.connector,
                    type="warning",
                    time_ms=one.since_ms,
                    summary=_describe_replaced(row.topic),
                    body=pack({"kind": TOPIC_REPLACED, "topic": row.topic}),
                )
            row.topic_id = topic_id
            row.save(update_fields=["topic_id", "replaced_ms"])
    ActiveTopic.objects.bulk_create(new_rows, ignore_conflicts=True, batch_size=200)


def _describe_replaced(topic: str) -> str:
    return (
        f"Topic {topic} was deleted and created again. Its records are gone, and are not written again, since the "
        "source offsets are unchanged"
    )


def remove_topic(key: str) -> str | None:
    """Apply a tombstone. Return the connector's name if the key is a topic's."""
    parts = parts_of(key)
    if parts is None:
        return None
    connector, topic = parts
    ActiveTopic.objects.filter(connector=clean(connector), topic=clean(topic)).delete()
    return connector


def forget_topics() -> None:
    ActiveTopic.objects.all().delete()


WORKER_GONE = "worker gone"
"""The kind of the event of a connector whose tasks start again elsewhere."""
_CONNECTOR_FIELDS = ("state", "worker", "trace", "version", "state_generation", "since_ms")
_TASK_FIELDS = (
    "state", "worker", "trace", "version", "generation", "attempt", "why", "since_ms", "restarts", "next_restart_ms",
    "failure", "endpoint", "retry", "incarnation", "failed_ms", "failed_trace", "failed_record",
)  # fmt: skip


def write(records: Sequence[Record]) -> set[str]:
    """Write the newest status of each key. Return the connectors that they concern. Inside the transaction."""
    startups, history, moves = Starting(), Minutes(), Moves()
    decoded_records = [
        (status, record) for record in records if (status := decode(record.key, record.value)) is not None
    ]
    failures: dict[bytes, LastFailure] = {}
    newest = _newest(decoded_records, startups, history, failures, moves)
    touched: set[str] = set()
    connectors: list[Connector] = []
    tasks: list[Task] = []
    topics: list[TopicStatus] = []
    gone_tasks: dict[str, list[int]] = {}
    for key, (decoded, time_ms) in newest.items():
        match decoded:
            case ConnectorStatus():
                connectors.append(_connector_row(decoded, time_ms))
                touched.add(decoded.connector)
            case TaskStatus():
                tasks.append(_task_row(decoded, time_ms, failures.get(key, NONE)))
                touched.add(decoded.task.connector)
            case TopicStatus():
                topics.append(decoded)
                touched.add(decoded.connector)
            case WorkerRecord() | LeaderRecord() | SuspicionRecord():
                _write_cluster(decoded)
            case StatusTombstone(removed) if (task := _task_of(removed)) is not None:
                gone_tasks.setdefault(task.connector, []).append(task.task)
            case StatusTombstone(removed):
                touched |= _remove(removed)
    _clear(gone_tasks)
    touched |= gone_tasks.keys()
    _keep_since(connectors, startups, history)
    upsert(connectors, _CONNECTOR_FIELDS, ("name",))
    upsert(tasks, _TASK_FIELDS, ("connector", "number"))
    write_topics(topics)
    startups.write()
    history.write()
    moves.write()
    if touched:
        refresh(touched)
    return touched


_UP = frozenset({State.RUNNING, State.PAUSED})


class Moves:
    """The tasks of one batch of statuses that got another attempt while the one before was at work elsewhere."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._times: dict[tuple[str, str, str], int] = {}

    def note(self, before: TaskStatus | None, now: TaskStatus, time_ms: int) -> None:
        """Add a task's status that replaces the previous one."""
        if before is None or before.state not in _UP or before.generation != now.generation:
            return
        if before.attempt == now.attempt or before.incarnation in ("", now.incarnation):
            return
        key = now.task.connector, before.worker, before.incarnation
        self._counts[key] += 1
        self._times[key] = time_ms

    def write(self) -> None:
        """Write an event for each connector and worker. A trusted one that lives was drained, or gave tasks away."""
        if not self._counts:
            return
        living = set(Worker.objects.values_list("worker", "incarnation"))
        suspected = set(Suspicion.objects.exclude(trust=Trust.TRUSTED).values_list("worker", "incarnation"))
        for key, count in self._counts.items():
            connector, worker, incarnation = key
            is_silent = (worker, incarnation) in suspected
            if is_silent or (worker, incarnation) not in living:
                what = "was silent" if is_silent else "is gone or was started again"
                tasks = "its task starts" if count == 1 else f"{write_count(count, 'task')} of it start"
                Event.objects.create(
                    connector=clean(connector),
                    type="warning",
                    time_ms=self._times[key],
                    summary=f"{clean(worker)} {what}: {tasks} again from the committed offsets",
                    body=pack({"kind": WORKER_GONE, "worker": clean(worker)}),
                )


class Starting:
    """The startups of one batch of statuses, written once, inside the batch's transaction."""

    def __init__(self) -> None:
        self._workers: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._restarts: Counter[tuple[str, int]] = Counter()

    def task(self, before: TaskStatus | None, now: TaskStatus) -> None:
        """Add a task's status that replaces the previous one."""
        new = before is None or (before.generation, before.attempt) != (now.generation, now.attempt)
        was = None if new or before is None else before.state
        counts = self._workers[clean(now.worker)]
        counts["task_attempts"] += new
        counts["task_successes"] += now.state in _UP and was not in _UP
        counts["task_failures"] += now.state is State.FAILED and was not in _UP and was is not State.FAILED
        if new and now.why == RESTARTED and now.restarts:
            self._restarts[now.task.connector, now.task.task] += 1

    def connector(self, before: str, row: Connector) -> None:
        """Add a connector's status. before: its state until now."""
        counts = self._workers[row.worker]
        counts["connector_successes"] += row.state in _UP and before not in _UP
        counts["connector_failures"] += row.state == State.FAILED != before

    def write(self) -> None:
        """Add to the rows, with one or two queries for each worker that started something."""
        for worker, counts in self._workers.items():
            gained = {name: count for name, count in counts.items() if count}
            more = ", ".join(f"{name} = {name} + %s" for name in gained)
            if worker and gained and not update(Startups, more, "worker = %s", *gained.values(), worker):
                insert([Startups(worker=worker, **gained)])
        for (connector, number), count in self._restarts.items():
            more = "auto_restarts = auto_restarts + %s"
            update(Task, more, "connector = %s AND number = %s", count, connector, number)


def _newest(
    decoded: Sequence[tuple[StatusRecord, Record]],
    startups: Starting,
    history: Minutes,
    failures: dict[bytes, LastFailure],
    moves: Moves,
) -> dict[bytes, tuple[StatusRecord, int]]:
    """Return the last record of each key; for a task, the last one that is not a late report of an older attempt.

    failures: the tasks' last failures, which are filled in.
    """
    statuses = _read_held([entry.task for entry, _ in decoded if isinstance(entry, TaskStatus)], failures)
    newest: dict[bytes, tuple[StatusRecord, int]] = {}
    for entry, record in decoded:
        key = record.key or b""
        if isinstance(entry, TaskStatus):
            before = statuses.get(key)
            if not replaces(entry, before):
                continue
            if entry.version is None and before is not None:
                entry = replace(entry, version=before.version)  # only the task knows its version
            startups.task(before, entry)
            moves.note(before, entry, record.timestamp_ms)
            _tell(history, before, entry, record.timestamp_ms)
            _note_failure(failures, key, entry, record.timestamp_ms)
            statuses[key] = entry
        elif isinstance(entry, StatusTombstone):
            statuses.pop(key, None)
            failures.pop(key, None)
        newest[key] = (entry, record.timestamp_ms)
    return newest


def _note_failure(failures: dict[bytes, LastFailure], key: bytes, now: TaskStatus, time_ms: int) -> None:
    if now.state is State.FAILED:
        at_ms = now.since_ms or time_ms
        failures[key] = LastFailure(now.generation, at_ms, clean(now.trace or ""), _failure(now))
    elif now.generation != failures.get(key, NONE).generation:
        failures.pop(key, None)


def _tell(history: Minutes, before: TaskStatus | None, now: TaskStatus, time_ms: int) -> None:
    again = before is not None and before.generation == now.generation and before.attempt != now.attempt
    was, state = "" if before is None else shown_state(before.state, before.retry), shown_state(now.state, now.retry)
    at_ms = now.since_ms or time_ms
    if now.retry is not None:
        at_ms = now.retry.since_ms
    elif was == RETRYING and state == State.RUNNING and not again:
        at_ms = time_ms  # it has been running since before its source refused
    history.record_change((now.task.connector, now.task.task), was, state, at_ms, again=again)


def _read_held(tasks: Sequence[TaskId], failures: dict[bytes, LastFailure]) -> dict[bytes, TaskStatus]:
    """Return the stored statuses of these tasks, and maybe others, by key, with what new reports are compared with.

    failures: their last failures, which are filled in.
    """
    statuses: dict[bytes, TaskStatus] = {}
    if not tasks:
        return statuses
    connectors, numbers = {task.connector for task in tasks}, {task.task for task in tasks}
    columns = (
        "connector, number, state, worker, generation, attempt, since_ms, version, retry, incarnation, failed_ms, "
        "failed_trace, failed_record"
    )
    condition = f"{among('connector', connectors)} AND {among('number', numbers)} AND state <> ''"
    rows = select(Task, columns, condition, *connectors, *numbers)
    for name, number, state, worker, generation, attempt, since_ms, version, retry, incarnation, *failure in rows:
        task = TaskId(ConnectorName(name), number)
        status = TaskStatus(
            task, State(state), WorkerId(worker), Generation(generation), attempt, Incarnation(incarnation)
        )
        key = f"status-task-{task}".encode()
        poll_retry = PollRetry(**json.loads(retry)) if retry else None
        statuses[key] = replace(status, since_ms=since_ms, version=version or None, retry=poll_retry)
        if failure[0]:
            failures[key] = LastFailure(generation, *failure)
    return statuses


def _connector_row(status: ConnectorStatus, time_ms: int) -> Connector:
    return Connector(
        name=status.connector,
        state=status.state,
        worker=clean(status.worker),
        trace=clean(status.trace or ""),
        version=clean(status.version or ""),
        state_generation=status.generation,
        since_ms=time_ms,
    )


def _keep_since(rows: Sequence[Connector], startups: Starting, history: Minutes) -> None:
    """Keep the start of a state when a status repeats it."""
    names = [row.name for row in rows]
    if not names:
        return
    stored = select(Connector, "name, state, since_ms", among("name", names), *names)
    before = {name: (state, since) for name, state, since in stored}
    for row in rows:
        state, since = before.get(row.name, ("", 0))
        startups.connector(state, row)
        history.record_change((row.name, ITSELF), state, row.state, row.since_ms)
        if state == row.state and since:
            row.since_ms = since


def _task_row(status: TaskStatus, time_ms: int, failure: LastFailure) -> Task:
    return Task(
        connector=status.task.connector,
        number=status.task.task,
        state=status.state,
        worker=clean(status.worker),
        trace=clean(status.trace or ""),
        version=clean(status.version or ""),
        generation=status.generation,
        attempt=status.attempt,
        why=clean(status.why),
        since_ms=status.since_ms or time_ms,
        restarts=status.restarts,
        next_restart_ms=status.next_ms,
        failure=_failure(status),
        endpoint=endpoints.pack_endpoint(status),
        retry="" if status.retry is None else pack({**asdict(status.retry), "cause": clean(status.retry.cause)}),
        incarnation=clean(status.incarnation),
        failed_ms=failure.at_ms,
        failed_trace=failure.trace,
        failed_record=failure.record,
    )


def _failure(status: TaskStatus) -> str:
    if status.failure is None:
        return ""
    name = f"failure {status.task.connector}-{status.task.task}"
    return encrypt_text(pack({key: _clean(value) for key, value in status.failure.fields().items()}), name)


def _clean(value: object) -> object:
    return clean(value) if isinstance(value, str) else value


def _write_cluster(record: WorkerRecord | LeaderRecord | SuspicionRecord) -> None:
    incarnation = clean(record.incarnation)
    match record:
        case WorkerRecord():
            facts = {
                "incarnation": incarnation,
                "mode": clean(record.mode)[:16],
                "slots": record.slots,
                "version": clean(record.version),
                "since_ms": record.since_ms,
            }
            Worker.objects.update_or_create(worker=record.worker, defaults=facts)
        case LeaderRecord():
            facts = {
                "leader": clean(record.worker),
                "incarnation": incarnation,
                "since_ms": record.since_ms,
                "group_generation": record.group_generation,
                "topic_tracking": record.topic_tracking,
            }
            ClusterInfo.objects.update_or_create(id=1, defaults=facts)
        case SuspicionRecord():
            facts = {
                "incarnation": incarnation,
                "trust": record.trust,
                "times": record.times,
                "since_ms": record.since_ms,
            }
            Suspicion.objects.update_or_create(worker=clean(record.worker), defaults=facts)


def _remove(key: str) -> set[str]:
    if (connector := remove_topic(key)) is not None:
        return {connector}
    if key == "leader":
        ClusterInfo.objects.filter(id=1).update(leader="", incarnation="", group_generation=-1)
    elif key.startswith("worker-"):
        Worker.objects.filter(worker=key.removeprefix("worker-")).delete()
    elif key.startswith(SuspicionRecord.PREFIX):
        Suspicion.objects.filter(worker=key.removeprefix(SuspicionRecord.PREFIX)).delete()
    elif key.startswith("status-connector-"):
        name = key.removeprefix("status-connector-")
        Connector.objects.filter(name=name).update(state="", worker="", trace="", state_generation=-1)
        return {name}
    return set()


def _task_of(key: str) -> TaskId | None:
    prefix = TaskStatus.PREFIX
    return parse_task(key.removeprefix(prefix)) if key.startswith(prefix) else None


def _clear(tasks: Mapping[str, Sequence[int]]) -> None:
    """Clear the statuses of these tasks, by connector."""
    for name, numbers in tasks.items():
        Task.objects.filter(connector=name, number__in=numbers).update(
            **dict.fromkeys(("state", "worker", "trace", "why", "failure", "retry", "incarnation"), ""),
            **dict.fromkeys(("reported_ms", "restarts", "next_restart_ms", "failed_ms"), 0),
            failed_trace="",
            failed_record="",
        )


def forget() -> None:
    """Delete the rows from the status topic, because the topic was created again."""
    Connector.objects.update(state="", worker="", trace="", state_generation=-1)
    Task.objects.update(state="", worker="", trace="", why="", generation=-1, attempt=0)
    Worker.objects.all().delete()
    Suspicion.objects.all().delete()
    forget_topics()
    ClusterInfo.objects.update(leader="", incarnation="", group_generation=-1)
    refresh(set(Connector.objects.values_list("name", flat=True)))
