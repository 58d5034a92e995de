"""The settings of a connector whose tasks may read as members of a consumer group, under the names of KafkaSource.

The runtime has to know of the group before a task starts: its producer comes first. A connector of your own that calls
`join_group` takes the same names.
"""

from collections.abc import Mapping
from typing import Final

ASSIGNMENT: Final = "assignment"
GROUP: Final = "group"
SESSION_TIMEOUT_MS: Final = "source.consumer.session.timeout.ms"
DEFAULT_SESSION_TIMEOUT_MS: Final = 10_000


def session_timeout_ms(config: Mapping[str, str]) -> int | None:
    """After how long the group gives a lost task's partitions away; None where the tasks read no group."""
    if config.get(ASSIGNMENT) != GROUP:
        return None
    text = config.get(SESSION_TIMEOUT_MS, "").strip()
    return int(text) if text.isdecimal() else DEFAULT_SESSION_TIMEOUT_MS
