"""Checks that a topic that replaces a lost one has no content that a restore would mix with."""

from ringfence.engine.config_topic import open_config_log
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.offsets.source_offsets import decode_key
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.worker_config import WorkerConfig


def knows_connectors(state: ClusterState) -> bool:
    """Return whether a connector exists, even if it cannot be read."""
    return any(one.config is not None or one.unreadable is not None for one in state.connectors.values())


def has_no_connector(connection: Connection, config: WorkerConfig, deadline: Deadline) -> bool:
    """Return whether the config topic has no connector."""
    reader = open_config_log(config, connection, deadline)
    try:
        return not knows_connectors(reader.refresh(deadline))
    finally:
        reader.close()


def has_no_offset(connection: Connection, config: WorkerConfig, deadline: Deadline) -> bool:
    """Return whether the offsets topic has no source offset."""
    reader = TopicLog(connection, config.offsets_topic, deadline=deadline)
    try:
        return not any(
            decode_key(record.key) and record.value for record in (*reader.catch_up(deadline), *reader.ahead)
        )
    finally:
        reader.close()
