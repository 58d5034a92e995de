"""Writes the config topic as rows: connectors, tasks, generations.

A commit record puts many task records into effect at once, and nobody else can write to SQLite while a transaction
lasts. So a long set is written as it arrives, in the transactions that also read it: into a column that nothing shows.
The commit record then only moves that column. A short set, as nearly all are, is written with its commit record.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db.models import F

from ringfence.encryption import ConfigVault, encrypt_text
from ringfence.fencing.errors import Unreadable
from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.topics.cluster_state import ClusterState, Fold
from ringfence.fencing.topics.config_encryption import decrypt
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    DrainRecord,
    TaskCountRecord,
    TaskRecord,
    TombstoneRecord,
    UnknownKey,
    connector_of,
    decode,
)
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.log_levels import LoggerRecord
from ringfence.plain_queries import among, insert, select, update, update_each, upsert
from ringfence.projection import record_totals
from ringfence.projection.health import refresh
from ringfence.projection.models import (
    Connector,
    DrainedWorker,
    Event,
    GenerationRow,
    LogLevel,
    Task,
    Tombstone,
    pack,
)
from ringfence.projection.records import Record, clean
from ringfence.projection.signals import WrittenConfig, configurations_read

SHORT: Final = 100
"""A set of at most this many tasks is written at once."""
_NONE: Final = "{}"
"""The configuration of a row that has none yet."""


def write_tasks(state: ClusterState, replaced: Iterable[str], arrived: Mapping[TaskId, Mapping[str, str]]) -> None:
    """Write what has changed. replaced: the connectors whose tasks may be other ones than before; arrived: the task
    records that wait for their commit record, or have met it. Inside the transaction.
    """
    connectors = [state.connector(ConnectorName(name)) for name in replaced]
    long = {each.name: each for each in connectors if _count(each) > SHORT}
    short = [each for each in connectors if each.name not in long]
    short_names = {each.name for each in short}
    _write_arrived({task: config for task, config in arrived.items() if task.connector not in short_names})
    _write_short(short)
    for each in long.values():
        _move_long(each)


def _count(state: ConnectorState) -> int:
    return 0 if state.config is None or state.commit is None else state.commit.tasks


def _pack(task: TaskId, config: Mapping[str, str]) -> str:
    return encrypt_text(pack(dict(config)), f"task {task}")


def _write_arrived(arrived: Mapping[TaskId, Mapping[str, str]]) -> None:
    rows = [Task(connector=t.connector, number=t.task, next_config=_pack(t, config)) for t, config in arrived.items()]
    upsert(rows, ("next_config",), ("connector", "number"))


def _write_short(states: Sequence[ConnectorState]) -> None:
    if not states:
        return
    names = [state.name for state in states]
    condition = f"{among('connector', names)} AND (known OR next_config <> '')"
    update(Task, "known = %s, next_config = ''", condition, False, *names)
    _put([_row(state, number) for state in states for number in range(_count(state))])


def _put(rows: Sequence[Task]) -> None:
    upsert(rows, ("known", "config"), ("connector", "number"))


def _row(state: ConnectorState, number: int) -> Task:
    task = state.tasks.get(number)
    config = _pack(TaskId(state.name, number), task.config if task else {})
    return Task(connector=state.name, number=number, known=True, config=config)


def _move_long(state: ConnectorState) -> None:
    count, rows = _count(state), Task.objects.filter(connector=state.name)
    rows.filter(number__gte=count).update(known=False, next_config="")
    rows.filter(number__lt=count).exclude(next_config="").update(config=F("next_config"), next_config="")
    rows.filter(number__lt=count, known=False).update(known=True)
    # Of a topic that was compacted, the connector's record may come behind the commit record.
    numbers = set(rows.exclude(config=_NONE).values_list("number", flat=True))
    _put([_row(state, number) for number in range(count) if number not in numbers])


_CONNECTOR_FIELDS = (
    "known", "config", "config_offset", "class_name", "type", "target", "generation", "task_count", "stale",
    "fencing", "unreadable", "log_level", "log_level_until_ms", "topic_grant",
)  # fmt: skip
_GENERATION_FIELDS = ("tasks", "config_offset", "committed_ms", "stage", "number")
_TOMBSTONES_KEPT_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The effect of consecutive config records: the state after them, and what only folding them shows."""

    state: ClusterState
    touched: frozenset[str] = frozenset()
    generations: Sequence[GenerationRow] = field(default_factory=tuple)
    fenced: Sequence[tuple[str, int, int]] = field(default_factory=tuple)
    """(connector, generation, time) of the count records that end a round."""
    warnings: Sequence[tuple[int, str]] = field(default_factory=tuple)
    """(time, text) of what could not be understood."""
    levels: Mapping[str, LogLevel] = field(default_factory=dict)
    configs: Sequence[WrittenConfig] = field(default_factory=tuple)
    drains: Sequence[DrainRecord] = field(default_factory=tuple)
    tombstones: Mapping[str, Tombstone] = field(default_factory=dict)
    retasked: frozenset[str] = frozenset()
    """The connectors whose tasks may be other ones than before."""
    arrived: Mapping[TaskId, Mapping[str, str]] = field(default_factory=dict)
    """The task records that a commit record puts, or has put, into effect."""


def fold(state: ClusterState, records: Iterable[Record], topic: str = "the config topic") -> ConfigChange:  # noqa: C901 - a case for each record type
    """Fold records into the state. None is skipped silently: unreadable ones are marked or logged."""
    touched: set[str] = set()
    folding = Fold(state)
    generations: list[GenerationRow] = []
    fenced: list[tuple[str, int, int]] = []
    warnings: list[tuple[int, str]] = []
    levels: dict[str, LogLevel] = {}
    configs: list[WrittenConfig] = []
    drains: list[DrainRecord] = []
    tombstones: dict[str, Tombstone] = {}
    retasked: set[str] = set()
    arrived: dict[TaskId, Mapping[str, str]] = {}
    vault = ConfigVault()
    for record in records:
        connector = connector_of(record.key or b"")
        try:
            decoded = decrypt(decode(record.key, record.value), vault)
        except Unreadable as error:
            reason = f"{topic}, offset {record.offset}: {error}"
            warnings.append((record.timestamp_ms, reason))
            if connector is not None:
                folding.mark_unreadable(record.offset, connector, reason)
                touched.add(connector)
            continue
        had_config = connector is not None and folding.connector(connector).config is not None
        folding.apply(record.offset, decoded)
        if isinstance(decoded, TaskRecord) and decoded.config is not None:
            arrived[decoded.task] = decoded.config
            if decoded.task.task in folding.connector(decoded.owner).pending:
                continue  # nothing shows it before its commit record
        if connector is not None and _may_change_tasks(decoded, had_config, folding.connector(connector)):
            retasked.add(connector)
        match decoded:
            case UnknownKey(key) if record.value is not None:
                warnings.append(
                    (record.timestamp_ms, f"{topic}, offset {record.offset}: unknown key {key!r} is kept, and ignored")
                )
            case LoggerRecord(logger, level):
                levels[logger] = LogLevel(
                    logger=clean(logger), level=clean(level or "")[:16], config_offset=record.offset
                )
            case DrainRecord():
                drains.append(decoded)
            case CommitRecord(name, tasks):
                row = GenerationRow(connector=name, generation=record.offset, tasks=tasks, stage="pending")
                row.committed_ms, row.config_offset = record.timestamp_ms, folding.connector(name).config_offset
                generations.append(row)
            case ConnectorRecord(name, config) if config is not None:
                since = folding.connector(name).config_offset
                configs.append(WrittenConfig(name, since, record.timestamp_ms, config))
            case ConnectorRecord(name, None):
                tombstones[name] = Tombstone(connector=name, config_offset=record.offset, time_ms=record.timestamp_ms)
            case TaskCountRecord(name, _, generation, _) if generation is not None:
                fenced.append((name, generation, record.timestamp_ms))
            case _:
                pass
        if connector is not None:
            touched.add(connector)
    return ConfigChange(
        folding.state,
        frozenset(touched),
        generations,
        fenced,
        warnings,
        levels,
        configs,
        drains,
        tombstones,
        frozenset(retasked),
        arrived,
    )


def _may_change_tasks(record: ConfigRecord, had_config: bool, now: ConnectorState) -> bool:
    """Return whether the connector's tasks may be other ones than before the record. A deleted one has none, which the
    record that deletes it has shown: thousands that remove what is left of it change no row.
    """
    has_config = now.config is not None
    if had_config and has_config:
        return isinstance(record, CommitRecord | TaskRecord | TombstoneRecord)
    return had_config or has_config


def write(change: ConfigChange) -> set[str]:
    """Write the rows of a change and return the connectors that changed. Inside the projector's transaction."""
    states = [change.state.connector(ConnectorName(name)) for name in change.touched]
    upsert([_connector_row(state) for state in states], _CONNECTOR_FIELDS, ("name",))
    write_tasks(change.state, change.retasked, change.arrived)
    _write_generations(change)
    _write_tombstones(change.tombstones)
    if change.configs:
        configurations_read.send(sender=None, configs=change.configs)
    for drain in change.drains:
        DrainedWorker.objects.filter(worker=drain.worker).delete()
        if drain.incarnation is not None:
            fields = {"incarnation": clean(drain.incarnation), "since_ms": drain.since_ms}
            DrainedWorker.objects.create(worker=drain.worker, **fields)
    insert(
        Event(type="warning", time_ms=time_ms, summary=clean(text), body=pack({"message": text}))
        for time_ms, text in change.warnings
    )
    upsert(list(change.levels.values()), ("level", "config_offset"), ("logger",))
    refresh(set(change.touched))
    return set(change.touched)


def _write_generations(change: ConfigChange) -> None:
    for rows in _rounds_of(change.generations):
        _write_newest_generations(rows)
    ends = [(time_ms, connector, generation) for connector, generation, time_ms in change.fenced]
    update_each(GenerationRow, "stage = 'done', ended_ms = %s", "connector = %s AND generation = %s", ends)


def _rounds_of(rows: Sequence[GenerationRow]) -> list[list[GenerationRow]]:
    """Return the rows in lists with one for each connector, in each connector's order."""
    counts: Counter[str] = Counter()
    rounds: list[list[GenerationRow]] = []
    for row in rows:
        if counts[row.connector] == len(rounds):
            rounds.append([])
        rounds[counts[row.connector]].append(row)
        counts[row.connector] += 1
    return rounds


def _write_newest_generations(rows: Sequence[GenerationRow]) -> None:
    """Write a generation of each of some connectors, and the number that users see: one more than the previous one's.

    One that is there already keeps its number.
    """
    names = [row.connector for row in rows]
    numbers: dict[str, dict[int, int]] = {}
    unfinished: set[tuple[str, int]] = set()
    stored = select(GenerationRow, "connector, generation, number, ended_ms", among("connector", names), *names)
    for name, generation, number, ended_ms in stored:
        numbers.setdefault(name, {})[generation] = number
        if not ended_ms:
            unfinished.add((name, generation))
    for row in rows:
        others = numbers.get(row.connector, {})
        row.number = others.pop(row.generation, 0) or 1 + max(others.values(), default=0)
        if any((row.connector, generation) in unfinished for generation in others):
            # If rounds of older generations were unfinished, the new one's round includes them.
            GenerationRow.objects.filter(connector=row.connector, ended_ms=0).exclude(generation=row.generation).update(
                stage="superseded", ended_ms=row.committed_ms
            )
    upsert(rows, _GENERATION_FIELDS, ("connector", "generation"))
    numbered = [(row.number, row.connector, row.generation) for row in rows]
    update_each(Connector, "generation_number = %s", "name = %s AND generation = %s", numbered)


def _write_tombstones(tombstones: Mapping[str, Tombstone]) -> None:
    """Write those that are new: a record behind an open transaction comes twice (`projector`)."""
    if not tombstones:
        return
    stored = record_totals.find_deletions(tombstones)
    new = [row for name, row in tombstones.items() if row.config_offset > stored.get(name, -1)]
    record_totals.forget([row.connector for row in new])
    upsert(new, ("config_offset", "time_ms"), ("connector",))


def _connector_row(state: ConnectorState) -> Connector:
    config = dict(state.config or {})
    is_known = state.config is not None or state.unreadable is not None
    target = "RUNNING" if state.target is TargetState.RUNNING else str(state.target)
    return Connector(
        name=state.name,
        known=is_known,
        config=encrypt_text(pack(config), f"connector {state.name}"),
        config_offset=state.config_offset,
        class_name=clean(config.get("connector.class", "")),
        type="source",
        target=target,
        generation=-1 if state.generation is None else state.generation,
        task_count=state.commit.tasks if state.commit and is_known else 0,
        stale=state.tasks_stale,
        fencing=is_known and state.round_pending,
        unreadable=clean(state.unreadable or ""),
        log_level=clean(state.log_level.level or "")[:8] if state.log_level else "",
        log_level_until_ms=min(state.log_level.until_ms, 2**62) if state.log_level else 0,
        topic_grant=_pack_grant(state),
    )


def _pack_grant(state: ConnectorState) -> str:
    value = state.topic_grant.to_value() if state.topic_grant is not None else None
    return "" if value is None else pack(dict(value))


def remove_others(state: ClusterState) -> set[str]:
    """Remove the rows that the topic, read to its end, does not have. Return the removed connectors.

    Another topic may have replaced this one, and a tombstone may be compacted away before it is read. Rows that an
    earlier version has written get the columns that it did not know. Inside the transaction.
    """
    there = {one.name for one in state.connectors.values() if one.config is not None or one.unreadable is not None}
    names = set(Connector.objects.filter(known=True).values_list("name", flat=True)) - there
    if names:
        write(ConfigChange(state, frozenset(names), retasked=frozenset(names)))
    _fill_topic_grants(state)
    LogLevel.objects.exclude(logger__in=[clean(logger) for logger in state.loggers]).delete()
    DrainedWorker.objects.exclude(worker__in=list(state.drains)).delete()
    return names


def _fill_topic_grants(state: ClusterState) -> None:
    for name, grant in Connector.objects.filter(known=True).values_list("name", "topic_grant"):
        if grant != (now := _pack_grant(state.connector(ConnectorName(name)))):
            Connector.objects.filter(name=name).update(topic_grant=now)


def delete_outdated() -> None:
    """Prepare for a topic that has replaced another one: its offsets, and so its generations, are different."""
    GenerationRow.objects.all().delete()
    Tombstone.objects.all().delete()


def prune(now_ms: int) -> None:
    """Forget deletions from which no late report can come any more."""
    Tombstone.objects.filter(time_ms__lt=now_ms - _TOMBSTONES_KEPT_MS).delete()
