"""The plans of commands: pure functions from the state at the end of the config topic to the records to write.

Each function returns a plan, `state -> records`. The leader's term evaluates it at the end of the log, in the
transaction that writes the records, and evaluates it again for each retry. A plan raises `Refusal` if the state does
not allow the change.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ringfence.connectors.common_settings import TASKS_MAX
from ringfence.connectors.sdk.worker_limits import MAX_TASKS
from ringfence.engine.leader import task_slices
from ringfence.engine.leader.task_slices import TaskConfigs
from ringfence.fencing.ids import ConnectorName, Incarnation, TaskId, WorkerId
from ringfence.fencing.leader.term import TopicRecord
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffsets, encode_value
from ringfence.fencing.topics.active_topics import TopicsResetRecord
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    DrainRecord,
    TargetStateRecord,
    TaskRecord,
)
from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.log_levels import LoggerRecord
from ringfence.fencing.topics.signals import SignalsRecord, add_signal
from ringfence.fencing.topics.sweep_requests import SweepRequestRecord
from ringfence.fencing.topics.topic_grants import TopicGrantRecord
from ringfence.requests.quota import NO_LIMITS, QUOTAS, Quota
from ringfence.requests.request import Refusal

Records = Sequence[ConfigRecord | TopicRecord]
Plan = Callable[[ClusterState], Records]

CHANGED: Final = "The connector's configuration was changed in between: read it again and repeat the request"
RECONFIGURED: Final = (
    "Cannot complete request momentarily due to stale configuration: the connector's tasks are being made again, and "
    "start automatically"
)


def require_existing(state: ClusterState, name: ConnectorName, message: str) -> ConnectorState:
    """Return the connector. Raises `Refusal`, a 404 with this message, if it does not exist."""
    if name not in state:
        raise Refusal(404, message)
    return state.connector(name)


def _task_set(name: ConnectorName, tasks: TaskConfigs) -> list[ConfigRecord]:
    records: list[ConfigRecord] = [TaskRecord(TaskId(name, n), config) for n, config in enumerate(tasks)]
    return [*records, CommitRecord(name, len(tasks))]


def _at_once(tasks: TaskConfigs | None) -> TaskConfigs | None:
    """Return the tasks, if they are few enough to be written with the command: the reconcile loop slices the others."""
    return tasks if tasks is None or task_slices.fits(tasks) else None


def _grant_records(connector: ConnectorState, grant: TopicGrantRecord | None) -> list[ConfigRecord]:
    """Return the record of the topics that the connector may write to, if they change. grant: None for all topics."""
    if grant == connector.topic_grant:
        return []
    return [TopicGrantRecord(connector.name, None) if grant is None else grant]


def regrant(before: TopicGrantRecord, after: TopicGrantRecord) -> Plan:
    """Replace a connector's grant after its account's grants changed. The tasks follow it without a new generation."""

    def plan(state: ClusterState) -> Records:
        return [after] if state.connector(before.connector).topic_grant == before else []

    return plan


def create(
    name: ConnectorName,
    config: Mapping[str, str],
    initial: TargetState,
    tasks: TaskConfigs | None,
    grant: TopicGrantRecord | None = None,
) -> Plan:
    """Create a connector. tasks: None if the plugin failed; then the reconcile loop asks it again, as it does for many
    tasks. grant: the topics of the user who creates it, written in the same transaction.
    """

    def plan(state: ClusterState) -> Records:
        if name in state:
            raise Refusal(409, f"Connector {name} already exists")
        target = [TargetStateRecord(name, initial)] if state.connector(name).target is not initial else []
        task_configs = () if initial is TargetState.STOPPED else _at_once(tasks)
        task_records = [] if task_configs is None else _task_set(name, task_configs)
        return [
            *target,
            *_grant_records(state.connector(name), grant),
            ConnectorRecord(name, dict(config)),
            *task_records,
        ]

    return plan


def configure(
    name: ConnectorName,
    config: Mapping[str, str],
    tasks: TaskConfigs | None,
    expected: int | None,
    grant: TopicGrantRecord | None = None,
) -> Plan:
    """Change the configuration of a connector. expected: the offset of the configuration to replace, None for any.

    An unchanged configuration restarts nothing: only the grant of the user who saves it is written, which running tasks
    follow.
    """

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, name, f"Connector {name} not found")
        if expected is not None and connector.config_offset != expected:
            raise Refusal(409, CHANGED, retry=True)
        grant_records = _grant_records(connector, grant)
        if connector.config == config and connector.unreadable is None:
            return grant_records
        task_configs = () if connector.target is TargetState.STOPPED else _at_once(tasks)
        task_records = [] if task_configs is None else _task_set(name, task_configs)
        return [*grant_records, ConnectorRecord(name, dict(config)), *task_records]

    return plan


def task_set(name: ConnectorName, config_offset: int, tasks: TaskConfigs) -> Plan:
    """Write the tasks of an unchanged configuration if they differ from the present ones, or if those are missing.

    Many tasks need several writes of this plan, until `task_slices.is_written`.
    """

    def plan(state: ClusterState) -> Records:
        connector = state.connector(name)
        if connector.config is None or connector.config_offset != config_offset:
            return []
        if connector.target is TargetState.STOPPED:
            return _task_set(name, ()) if connector.tasks_stale else []
        if task_slices.is_written(connector, config_offset, tasks):
            return []
        return task_slices.next_slice(connector, tasks)

    return plan


def pause(name: ConnectorName) -> Plan:
    """Pause: the tasks commit their open transactions and wait. A stopped connector gets tasks again, for a resume."""

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, name, f"Unknown connector {name}")
        if connector.target is TargetState.PAUSED:
            return []
        records: list[ConfigRecord] = [TargetStateRecord(name, TargetState.PAUSED)]
        if connector.target is TargetState.STOPPED:
            return [*records, ConnectorRecord(name, _readable_config(connector))]
        return records

    return plan


def resume(name: ConnectorName, tasks: TaskConfigs | None) -> Plan:
    """Run. tasks: those of a stopped connector, which has none; None leaves them to the reconcile loop."""

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, name, f"Unknown connector {name}")
        if connector.target is TargetState.RUNNING:
            return []
        records: list[ConfigRecord] = [TargetStateRecord(name, TargetState.RUNNING)]
        if connector.target is TargetState.STOPPED:
            if (few := _at_once(tasks)) is not None:
                return [*records, *_task_set(name, few)]
            # Written again, so that it is newer than the empty task set, and the tasks are requested.
            return [*records, ConnectorRecord(name, _readable_config(connector))]
        return records

    return plan


def stop(name: ConnectorName) -> Plan:
    """Stop: an empty generation, whose round fences the tasks of the last one (KIP-875)."""

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, name, f"Unknown connector {name}")
        if connector.target is TargetState.STOPPED and not connector.tasks_stale:
            return []
        return [TargetStateRecord(name, TargetState.STOPPED), CommitRecord(name, 0)]

    return plan


def fence_now(name: ConnectorName) -> Plan:
    """Write the same tasks as a new generation. Its round fences every id of the old one; then they start again."""

    def plan(state: ClusterState) -> Records:
        records = _repeat_tasks(state, name)
        if not isinstance(records[-1], CommitRecord):  # they were written by `fence_ahead`, and have changed since
            raise Refusal(409, CHANGED, retry=True)
        return records

    return plan


def fence_ahead(name: ConnectorName) -> Plan:
    """Write the next of the task records that `fence_now` repeats, and nothing if the rest fits into its own write."""

    def plan(state: ClusterState) -> Records:
        records = _repeat_tasks(state, name)
        return [] if isinstance(records[-1], CommitRecord) else records

    return plan


def _repeat_tasks(state: ClusterState, name: ConnectorName) -> list[ConfigRecord]:
    connector = require_existing(state, name, f"Connector {name} not found")
    if connector.tasks_stale:
        raise Refusal(409, RECONFIGURED, retry=True)
    _readable_config(connector)
    return task_slices.next_slice(connector, [connector.tasks[n].config for n in sorted(connector.tasks)])


def _readable_config(connector: ConnectorState) -> dict[str, str]:
    """Return the configuration, to write it again. Raises `Refusal` if the newest record cannot be read."""
    if connector.unreadable is not None:
        raise Refusal(409, f"Connector {connector.name}: {connector.unreadable}")
    return dict(connector.config or {})


def delete(name: ConnectorName) -> Plan:
    """Delete: an empty generation and the tombstones at once. The round that is then due survives a new leader."""

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, name, f"Connector {name} not found")
        records: list[ConfigRecord] = [
            CommitRecord(name, 0),
            TargetStateRecord(name, None),
            ConnectorRecord(name, None),
        ]
        if connector.topic_grant is not None:
            records.append(TopicGrantRecord(name, None))
        if connector.topics_reset >= 0:
            records.append(TopicsResetRecord(name, None))
        if connector.sweep_request is not None:
            records.append(SweepRequestRecord(name, None))
        if connector.signals:
            records.append(SignalsRecord(name, None))
        return [*records, ConnectorLevelRecord(name, None)] if connector.log_level is not None else records

    return plan


def reset_topics(name: ConnectorName, time_ms: int) -> Plan:
    """Have the tasks report their topics again (KIP-558). Nothing is written for a connector that does not exist."""

    def plan(state: ClusterState) -> Records:
        return [TopicsResetRecord(name, time_ms)] if name in state else []

    return plan


def set_log_level(logger: str, level: str) -> Plan:
    """Have every process of the cluster set a log level (KIP-976)."""
    return lambda _state: [LoggerRecord(logger, level)]


def drain(worker: WorkerId, incarnation: Incarnation | None, now_ms: int) -> Plan:
    """Drain a worker's incarnation: it gets no tasks, and gives up those for which others have room. None ends that."""

    def plan(state: ClusterState) -> Records:
        return [] if state.drains.get(worker) == incarnation else [DrainRecord(worker, incarnation, now_ms)]

    return plan


def set_connector_log_level(name: ConnectorName, level: str | None, until_ms: int) -> Plan:
    """Set the level at which the connector's tasks publish log lines until `until_ms`; None ends it."""

    def plan(state: ClusterState) -> Records:
        require_existing(state, name, f"Connector {name} not found")
        return [ConnectorLevelRecord(name, level, until_ms)]

    return plan


def require_movable(connector: ConnectorState) -> None:
    """Raise `Refusal` unless the connector's offsets may be altered now."""
    name = connector.name
    if connector.target is not TargetState.STOPPED or connector.commit is None or connector.commit.tasks:
        raise Refusal(
            400,
            f"Connector {name} must be in the STOPPED state before its offsets can be modified. "
            f"Stop it with PUT /connectors/{name}/stop, then repeat the request",
        )
    if connector.round_pending or connector.tasks_stale:  # its offsets may be on their way to another topic
        raise Refusal(
            409,
            f"The tasks of connector {name} are still being fenced: nothing was changed. Repeat the request",
            passing=True,
        )


def alter_offsets(
    name: ConnectorName, changes: Sequence[tuple[Partition, Offset | None]], offsets: SourceOffsets, topic: str
) -> Plan:
    """Alter source offsets (KIP-875). Refused while a task that could commit may be alive."""

    def plan(state: ClusterState) -> Records:
        require_movable(require_existing(state, name, f"Connector {name} not found"))
        records = [TopicRecord(topic, offsets.key_of(partition), encode_value(offset)) for partition, offset in changes]
        # Written again: the record in the config topic shows whether the transaction was committed.
        return [*records, TargetStateRecord(name, TargetState.STOPPED)] if records else []

    return plan


_OPTIONS: Final = {"connectors": "--connectors", "tasks": "--tasks", "config_bytes": "--config-bytes"}

_MOST_COUNTED: Final = 10_000
_counted: Final[dict[str, tuple[Mapping[str, str], int, Quota]]] = {}
"""What a connector takes with the configuration and the tasks that it had last."""


def usage_of(config: Mapping[str, str], tasks: int = 0) -> Quota:
    """Return what one connector takes. tasks: how many it has now, for a connector that may exceed its `tasks.max`."""
    text = config.get(TASKS_MAX, "1").strip()
    tasks_max = int(text[:10]) if text.isascii() and text.isdigit() else 1
    size = len("".join([*config, *config.values()]).encode())  # one string: thousands of connectors are counted
    return Quota(1, max(min(tasks_max, MAX_TASKS), tasks), size)


def usage(state: ClusterState, account: str) -> Quota:
    """Return what the account's connectors take in all."""
    return _sum([_usage_now(each) for each in state.existing() if _owner(each) == account])


def require(state: ClusterState, account: str, quota: Quota, name: ConnectorName, config: Mapping[str, str]) -> None:
    """Raise a `Refusal` with 403 if the account would have more than its quota with this configuration saved.

    What does not grow is never refused: an account may be above a quota that is younger than its connectors.
    """
    before = state.connector(name)
    mine = before.config is not None and _owner(before) == account
    had = _usage_now(before) if mine else Quota(0, 0, 0)
    have, want = usage(state, account), usage_of(config)
    for each, what in QUOTAS.items():
        used, limit = getattr(have, each), getattr(quota, each)
        after = used - getattr(had, each) + getattr(want, each)
        if after > max(limit, used):
            raise Refusal(
                403,
                f"Connector {name} was not saved: account {account} would have {after:,} {what}, uses {used:,}, and "
                f"its quota is {limit:,}. Delete connectors that are not needed, or ask an administrator for a larger "
                f"quota: `ringfence users grant {account} … {_OPTIONS[each]} {after}`, or the console's Grant page.",
            )


def within(plan: Plan, account: str, quota: Quota, name: ConnectorName, config: Mapping[str, str]) -> Plan:
    """Return the plan, refused where the write would pass the quota: two commands at once cannot both have the rest."""

    def plan_and_check(state: ClusterState) -> Records:
        records = plan(state)
        if quota != NO_LIMITS:
            require(state, account, quota, name, config)
        return records

    return plan_and_check


def _owner(connector: ConnectorState) -> str:
    return "" if connector.topic_grant is None else connector.topic_grant.user


def _usage_now(connector: ConnectorState) -> Quota:
    """Count a configuration once: each creation looks at all connectors of its account."""
    config, tasks = connector.config or {}, 0 if connector.commit is None else connector.commit.tasks
    last = _counted.get(connector.name)
    if last is not None and last[0] is config and last[1] == tasks:
        return last[2]
    if len(_counted) > _MOST_COUNTED:
        _counted.clear()
    counted = usage_of(config, tasks)
    _counted[connector.name] = config, tasks, counted
    return counted


def _sum(usages: Sequence[Quota]) -> Quota:
    sums = [
        sum(column)
        for column in zip(*((each.connectors, each.tasks, each.config_bytes) for each in usages), strict=True)
    ]
    return Quota(*sums) if sums else Quota(0, 0, 0)


def request_sweep(record: SweepRequestRecord) -> Plan:
    """Have the tasks of a running connector check these offsets now, instead of when they are due."""

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, record.connector, f"Connector {record.connector} not found")
        if connector.target is not TargetState.RUNNING:
            raise Refusal(
                409,
                f"Connector {record.connector} is not running: nothing was done. Resume it and repeat the request; "
                "its sweep reads what is not done in any case",
            )
        return [record]

    return plan


def send_signal(name: ConnectorName, kind: str, data: Mapping[str, object], now_ms: int) -> Plan:
    """Send the connector's tasks a signal. Tasks that do not run now read it when they start."""

    def plan(state: ClusterState) -> Records:
        connector = require_existing(state, name, f"Connector {name} not found")
        return [SignalsRecord(name, add_signal(connector.signals, kind, data, now_ms))]

    return plan
