"""The worker's own topics: created where missing, checked where present."""

from fencing.clock import Deadline
from fencing.kafka.admin import TopicSpec, create_topics
from fencing.kafka.settings import Connection
from fencing.task_spec import Topics
from ringfence.worker_config import WorkerConfig

_COMPACTED = {"cleanup.policy": "compact"}
_EVENTS = {"cleanup.policy": "delete", "retention.ms": str(24 * 3600 * 1000)}


def topics_of(config: WorkerConfig) -> Topics:
    """The names."""
    return Topics(config.config_topic, config.offsets_topic, config.status_topic, config.events_topic)


def ensure_topics(connection: Connection, config: WorkerConfig, deadline: Deadline) -> None:
    """Create the four topics where they are missing, with Kafka Connect's partitions and cleanup policies."""
    wanted = [
        TopicSpec(config.config_topic, 1, config.number("config.storage.replication.factor"), _COMPACTED),
        TopicSpec(
            config.offsets_topic,
            config.number("offset.storage.partitions"),
            config.number("offset.storage.replication.factor"),
            _COMPACTED,
        ),
        TopicSpec(
            config.status_topic,
            config.number("status.storage.partitions"),
            config.number("status.storage.replication.factor"),
            _COMPACTED,
        ),
        TopicSpec(
            config.events_topic,
            config.number("events.storage.partitions"),
            config.number("events.storage.replication.factor"),
            _EVENTS,
        ),
    ]
    create_topics(connection, wanted, deadline)
