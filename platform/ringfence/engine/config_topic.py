"""The platform's way to read the config topic: with the keys that its configurations may be encrypted with."""

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.topics.config_log import ConfigLog
from ringfence.worker_config import WorkerConfig


def open_config_log(config: WorkerConfig, connection: Connection, limit: Deadline) -> ConfigLog:
    """Closed by the caller. Raises `FencingError`."""
    return ConfigLog(connection, config.config_topic, limit, vault=config.vault)
