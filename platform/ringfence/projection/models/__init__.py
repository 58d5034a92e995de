"""Rows made from the config, offsets, status and events topics. Only the projector writes them.

Tables refer to connectors by name, not by foreign key: records of one topic may come before those of another. JSON is
stored as ASCII text, since PostgreSQL's jsonb refuses some characters that a configuration may have. Times are in
milliseconds since the epoch, 0 for "never".
"""

import json

from ringfence.projection.models.cluster import (
    ClusterInfo,
    DrainedWorker,
    HangingTransaction,
    LogLevel,
    PluginSecrets,
    Startups,
    Suspicion,
    TopicPosition,
    Worker,
)
from ringfence.projection.models.connectors import (
    ActiveTopic,
    Connector,
    GenerationRow,
    RecordTotals,
    SourceOffset,
    Task,
    Tombstone,
    find_connector,
)
from ringfence.projection.models.history import (
    Event,
    HistoryPoint,
    LogLine,
    Minute,
)

__all__ = [
    "ActiveTopic",
    "ClusterInfo",
    "Connector",
    "DrainedWorker",
    "Event",
    "GenerationRow",
    "HangingTransaction",
    "HistoryPoint",
    "LogLevel",
    "LogLine",
    "Minute",
    "PluginSecrets",
    "RecordTotals",
    "SourceOffset",
    "Startups",
    "Suspicion",
    "Task",
    "Tombstone",
    "TopicPosition",
    "Worker",
    "find_connector",
    "pack",
]


def pack(value: object) -> str:
    """Return a value as compact ASCII JSON with sorted keys, so that equal values are equal strings."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
