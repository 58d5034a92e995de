"""Opens the config topic with the keys that decrypt its configurations."""

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.topics.config_log import ConfigLog
from ringfence.worker_config import WorkerConfig


def open_config_log(config: WorkerConfig, connection: Connection, limit: Deadline) -> ConfigLog:
    """Open the config topic; the caller closes it. Raises `FencingError`."""
    return ConfigLog(connection, config.config_topic, limit, vault=config.vault)
