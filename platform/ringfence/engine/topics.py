"""The worker's own topics: created where missing, checked where present."""

from fencing.clock import Deadline
from fencing.kafka.admin import TopicSpec, create_topics
from fencing.kafka.settings import Connection
from fencing.offset_stores import offsets_topic_spec
from fencing.task_spec import Topics
from ringfence.worker_config import WorkerConfig

_COMPACTED = {"cleanup.policy": "compact"}
_EVENTS = {"cleanup.policy": "delete", "retention.ms": str(24 * 3600 * 1000)}


def topics_of(config: WorkerConfig) -> Topics:
    """The names."""
    return Topics(config.config_topic, config.offsets_topic, config.status_topic, config.events_topic)


def ensure_topics(connection: Connection, config: WorkerConfig, deadline: Deadline) -> None:
    """Create the four topics where they are missing, with Kafka Connect's partitions and cleanup policies.

    The offsets topic also gets the settings that `offset.storage.*` names, compaction excepted: that is forced.
    """
    wanted = [
        TopicSpec(config.config_topic, 1, config.number("config.storage.replication.factor"), _COMPACTED),
        offsets_topic_spec(config.offsets_topic, config.settings),
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
