"""The settings of a connector whose tasks may join a consumer group, with the names of KafkaSource.

The runtime must know the group before a task starts, since its producer is created first. Your own connector that calls
`join_group` uses the same names.
"""

from collections.abc import Mapping
from typing import Final

ASSIGNMENT: Final = "assignment"
GROUP: Final = "group"
SESSION_TIMEOUT_MS: Final = "source.consumer.session.timeout.ms"
DEFAULT_SESSION_TIMEOUT_MS: Final = 10_000


def session_timeout_ms(config: Mapping[str, str]) -> int | None:
    """Return after how long the group reassigns a lost task's partitions; None if the tasks join no group."""
    if config.get(ASSIGNMENT) != GROUP:
        return None
    text = config.get(SESSION_TIMEOUT_MS, "").strip()
    return int(text) if text.isdecimal() else DEFAULT_SESSION_TIMEOUT_MS
