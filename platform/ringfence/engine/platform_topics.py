"""Creates and checks the worker's topics. A lost config or offsets topic is never created again.

At a worker's start: 1 the ids of the topics are requested; 2 the stored ids are read (`fencing.topics.topic_ids`); 3 a
config or offsets topic that is gone, or has another id, raises `TopicLost`; 4 missing topics are created. A lost status
or events topic is created again, since tasks and workers repeat their reports.
"""

import logging
from collections.abc import Callable

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import TopicLost
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.partitioner import partition_of
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics, topic_identity, topic_ids
from ringfence.fencing.kafka.topic_offsets import end_offsets
from ringfence.fencing.offsets.stores import offsets_topic_spec
from ringfence.fencing.topics.names import Topics
from ringfence.fencing.topics.topic_ids import (
    CONFIG,
    EVENTS,
    KEY,
    OFFSETS,
    PRECIOUS,
    ROLES,
    STATUS,
    Topic,
    TopicIds,
    explanation,
    loads,
    losses,
    newest,
    offsets_key,
)
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_COMPACTED = {"cleanup.policy": "compact"}
_EVENTS = {"cleanup.policy": "delete", "retention.ms": str(24 * 3600 * 1000)}

RecallTopicIds = Callable[[], TopicIds | None]


def topics_of(config: WorkerConfig, ids: TopicIds | None = None) -> Topics:
    """Return the names of the topics, and the ids of those without which an attempt must end."""
    by_role = {role: one.id for role, one in (ids.topics if ids else {}).items()}
    names = (config.config_topic, config.offsets_topic, config.status_topic, config.events_topic)
    return Topics(*names, by_role.get(CONFIG, ""), by_role.get(OFFSETS, ""))


def names_of(config: WorkerConfig) -> dict[str, str]:
    """Return the topics' names by role."""
    return {
        CONFIG: config.config_topic,
        OFFSETS: config.offsets_topic,
        STATUS: config.status_topic,
        EVENTS: config.events_topic,
    }


def specs(config: WorkerConfig) -> dict[str, TopicSpec]:
    """Return the topics to create by role, with Kafka Connect's partitions and cleanup policies.

    The offsets topic also gets the settings of `offset.storage.*`, except that it is always compacted.
    """
    return {
        CONFIG: TopicSpec(config.config_topic, 1, config.number("config.storage.replication.factor"), _COMPACTED),
        OFFSETS: offsets_topic_spec(config.offsets_topic, config.settings),
        STATUS: TopicSpec(
            config.status_topic,
            config.number("status.storage.partitions"),
            config.number("status.storage.replication.factor"),
            _COMPACTED,
        ),
        EVENTS: TopicSpec(
            config.events_topic,
            config.number("events.storage.partitions"),
            config.number("events.storage.replication.factor"),
            _EVENTS,
        ),
    }


def ensure_topics(
    connection: Connection, config: WorkerConfig, deadline: Deadline, recall_ids: RecallTopicIds = lambda: None
) -> TopicIds:
    """Make sure that the four topics exist, and return their ids. Raises `TopicLost`; then nothing is created.

    recall_ids: returns the ids in the database, None if it has no connectors.
    """
    topics = present(connection, config, deadline)  # 1
    ids = recall(connection, config, deadline, recall_ids())  # 2
    lost = losses(ids, topics) if ids is not None else []
    if precious := [one for one in lost if one.role in PRECIOUS]:  # 3
        raise TopicLost(explanation(precious))
    for one in lost:
        log.error("Of the cluster's topics, %s: the cluster continues with a new one, and reports are repeated", one)
    if missing := [spec for role, spec in specs(config).items() if topics[role] is None]:
        create_topics(connection, missing, deadline)  # 4
    return (ids or TopicIds()).after(_await_topics(connection, config, deadline))


def present(connection: Connection, config: WorkerConfig, deadline: Deadline) -> dict[str, Topic | None]:
    """Return the topics that the settings name, by role; None for a missing one."""
    names = names_of(config)
    ids = topic_ids(connection, list(names.values()), deadline)
    return {role: Topic(name, id_) if (id_ := ids[name]) is not None else None for role, name in names.items()}


def _await_topics(connection: Connection, config: WorkerConfig, deadline: Deadline) -> dict[str, Topic]:
    names = names_of(config)
    return {role: Topic(names[role], topic_identity(connection, names[role], deadline)[0]) for role in ROLES}


def recall(
    connection: Connection, config: WorkerConfig, deadline: Deadline, database_ids: TopicIds | None
) -> TopicIds | None:
    """Return the newest ids stored in the topics or in the database (`database_ids`); None if there are none.

    The small topics are read first, the offsets topic only if they have none.
    """
    topics = present(connection, config, deadline)
    candidates: list[TopicIds] = []
    keys = ((CONFIG, KEY.encode()), (STATUS, KEY.encode()), (OFFSETS, offsets_key(config.group_id)))
    for role, key in keys:
        topic = topics[role]
        sure = bool(candidates) or (role == OFFSETS and database_ids is not None)
        if topic is not None and not sure:
            values = _records(connection, topic.name, key, deadline)
            candidates += [one for value in values if (one := loads(value)) is not None]
    return newest([database_ids, *candidates])


def _records(connection: Connection, topic: str, key: bytes, deadline: Deadline) -> list[bytes | None]:
    """Return the values of a key, oldest first. Only its partition is read, since the offsets topic may be large."""
    _, partitions = topic_identity(connection, topic, deadline)
    ends = end_offsets(connection, topic, partitions, deadline)
    start = {**ends, partition_of(key, len(partitions)): 0}
    reader = TopicLog(connection, topic, start, deadline=deadline)
    try:
        records = reader.catch_up(deadline, key_filter=lambda each: each == key, ends=ends)
        return [record.value for record in (*records, *reader.ahead)]
    finally:
        reader.close()
