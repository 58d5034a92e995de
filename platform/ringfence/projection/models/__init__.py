"""Rows made from the config, offsets, status and events topics. Only the projector writes them.

Tables name connectors by text, not by foreign key: records of one topic may come before those of another. JSON is
kept as ASCII text, since PostgreSQL's jsonb refuses characters that a config may hold. Times are milliseconds since
the epoch, 0 for "never".
"""

import json

from ringfence.projection.models.cluster import (
    ClusterInfo,
    DrainedWorker,
    HangingTransaction,
    LogLevel,
    PluginSecrets,
    Startups,
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
)
from ringfence.projection.models.past import (
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
    "Task",
    "TopicPosition",
    "Worker",
    "pack",
]


def pack(value: object) -> str:
    """A value as compact ASCII JSON text, keys sorted, so that equal values are equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
