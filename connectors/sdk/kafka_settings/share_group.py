"""The settings of a connector whose tasks join a share group, with the names of ShareGroupSource.

Your own connector that calls `join_share_group` uses the same names.
"""

from collections.abc import Mapping
from typing import Final

TOPICS: Final = "topics"
SOURCE_SERVERS: Final = "source.cluster.bootstrap.servers"
GROUP: Final = "share.group"
START: Final = "share.start"
LOCK_MS: Final = "share.lock.ms"
DELIVERY_LIMIT: Final = "share.delivery.limit"
MAX_LOCKS: Final = "share.max.locks"
SWEEP_AFTER_MS: Final = "share.sweep.after.ms"
CLAIM_TIMEOUT_MS: Final = "share.claim.timeout.ms"
EXHAUSTED: Final = "share.exhausted"

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
DEAD_LETTER: Final = "dead-letter"
RETRY: Final = "retry"

NUMBERS: Final[Mapping[str, tuple[int, int, int]]] = {
    LOCK_MS: (30_000, 1_000, 3_600_000),
    DELIVERY_LIMIT: (5, 2, 10),
    MAX_LOCKS: (4000, 100, 10_000),
    SWEEP_AFTER_MS: (0, 0, 86_400_000),
    CLAIM_TIMEOUT_MS: (10_000, 100, 600_000),
}
"""Default, minimum and maximum of each number. The brokers have limits of their own."""


def number_of(config: Mapping[str, str], name: str) -> int:
    """Return a number; the default if it is malformed, which validation reports."""
    text = config.get(name, "").strip()
    return int(text) if text.isdecimal() else NUMBERS[name][0]


def group_of(group_id: str, connector: str, configured: str | None) -> str:
    """Return a connector's share group; the default consists of the worker group's name and the connector's."""
    return (configured or "").strip() or f"{group_id}-{connector}"
