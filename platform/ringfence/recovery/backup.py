"""Copies from the topics (`from_kafka`) and from the database (`from_database`)."""

from ringfence.engine.config_topic import open_config_log
from ringfence.fencing.clock import Deadline, epoch_ms
from ringfence.fencing.errors import Retriable, Unreadable
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.topic_admin import cluster_id
from ringfence.fencing.leader.fence_targets import target_of
from ringfence.fencing.offsets.source_offsets import canonical, decode_key, decode_value
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.topic_grants import Groups, TopicGrantRecord
from ringfence.fencing.topics.topic_ids import dumps
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.recovery.backup_format import ConnectorCopy, Copy, OffsetCopy
from ringfence.worker_config import WorkerConfig

_TRIES = 5


def from_kafka(connection: Connection, config: WorkerConfig, deadline: Deadline) -> Copy:
    """Copy the cluster's state while tasks run.

    1: the config topic is read to its end; 2: the offsets topic is read to its end; 3: the config topic is read again;
       if a
    connector was changed in the meantime, all steps are repeated. So every offset was committed under a configuration
    in
    the copy.
    """
    log = open_config_log(config, connection, deadline)
    try:
        for _ in range(_TRIES):
            state = log.refresh(deadline)  # 1
            refuse_unreadable(state)
            offsets = _offsets(connection, config.offsets_topic, deadline)  # 2
            if _copy_connectors(log.refresh(deadline)) == _copy_connectors(state):  # 3
                break
        else:
            raise Retriable("Connectors were changed again and again while they were read: try again at a quieter time")
    finally:
        log.close()
    return Copy(
        config.group_id,
        epoch_ms(),
        f"topics {config.config_topic} and {config.offsets_topic}",
        {one.name: copy_of(one) for one in state.existing()},
        offsets,
        cluster_id(connection, deadline),
        {} if state.topic_ids is None else {"ids": dumps(state.topic_ids).decode()},
    )


def refuse_unreadable(state: ClusterState) -> None:
    """Raise `Unreadable`, with the remedy: no connector may be missing without notice."""
    for one in state.connectors.values():
        if one.unreadable is not None:
            raise Unreadable(f"Connector {one.name}: {one.unreadable}")


def copy_of(state: ConnectorState) -> ConnectorCopy:
    """Return the copy of a connector. Tasks of older generations that may be alive are counted, too."""
    config = state.config or {}
    counts = (state.commit.tasks if state.commit else 0, state.count.tasks if state.count else 0)
    pending = state.round_pending and state.count is not None
    target = state.count.target if pending and state.count is not None else target_of(config)
    topics, by = _topics_of(state.topic_grant)
    return ConnectorCopy(dict(config), state.target, max(counts), dict(target), topics, by)


def _topics_of(grant: TopicGrantRecord | None) -> tuple[Groups, str]:
    return ((grant.patterns or ()), grant.user) if grant is not None else ((), "")


def _copy_connectors(state: ClusterState) -> dict[ConnectorName, ConnectorCopy]:
    return {one.name: copy_of(one) for one in state.existing()}


def _offsets(connection: Connection, topic: str, deadline: Deadline) -> list[OffsetCopy]:
    """Return the newest offset of every source partition, also of deleted connectors, for any encoding of its key."""
    newest: dict[tuple[str, str], OffsetCopy | None] = {}
    log = TopicLog(connection, topic, deadline=deadline)
    try:
        for record in (*log.catch_up(deadline), *log.ahead):
            key, offset = decode_key(record.key), decode_value(record.value)
            if key is not None:
                name, partition = key
                newest[name, canonical(partition)] = None if offset is None else OffsetCopy(name, partition, offset)
    finally:
        log.close()
    return [one for _, one in sorted(newest.items()) if one is not None]


def from_database(group_id: str) -> Copy:
    """Return what the projection shows, at the time of the loss. Django must be set up.

    Offsets of the last moments before the loss may be missing: they are projected shortly after their commit.
    """
    import json

    from django.db.models import Max

    from ringfence.projection.models import ClusterInfo, Connector, GenerationRow, SourceOffset

    most = dict(GenerationRow.objects.values_list("connector").annotate(Max("tasks")))
    connectors = {}
    for row in Connector.objects.filter(known=True):
        state = TargetState.RUNNING if row.target == "RUNNING" else TargetState(row.target)
        tasks = max(row.task_count, most.get(row.name, 0))
        grant = json.loads(row.topic_grant) if row.topic_grant else None
        topics, by = _topics_of(TopicGrantRecord.parse(TopicGrantRecord.PREFIXES[0], row.name, grant))
        connectors[row.name] = ConnectorCopy(row.settings, state, tasks, target_of(row.settings), topics, by)
    offsets = [
        OffsetCopy(one.connector, partition, offset)
        for one in SourceOffset.objects.order_by("connector", "partition").iterator()
        if isinstance(partition := json.loads(one.partition), dict)
        and isinstance(offset := json.loads(one.offset), dict)
    ]
    info = ClusterInfo.objects.first()
    ids = {"ids": info.topic_ids} if info is not None and info.topic_ids else {}
    cluster = info.kafka_cluster_id if info is not None else ""
    return Copy(group_id, epoch_ms(), "the database", connectors, offsets, cluster, ids)
