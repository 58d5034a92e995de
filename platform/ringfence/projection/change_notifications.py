"""Publishes the names of changed connectors over Redis, for the event streams of open pages."""

import json
import logging
import time
from dataclasses import asdict, dataclass

import redis

from ringfence import redis_client

CHANNEL = "ringfence:changes"
_PAUSE_SECONDS = 5.0
_MOST_BYTES = 1 << 20
"""The names of some ten thousand connectors. A longer notice costs more to read than to look again."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Notice:
    """The effect of a batch of records. changed: connectors with a new configuration, state or health; moved: those
    with only new numbers; other: whether anything else changed (workers, leader)."""

    changed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    other: bool = False

    def encode(self) -> str:
        return json.dumps(asdict(self))


ANYTHING = Notice(other=True)


def decode(data: bytes | str) -> Notice:
    """Parse a published notice; anything else becomes the notice that only says "look again".

    Whoever reaches Redis can publish here, so this never raises: the pages of a whole process hang on it.
    """
    if len(data) > _MOST_BYTES:
        return ANYTHING
    try:
        loaded = json.loads(data)
    except (ValueError, RecursionError):
        return ANYTHING
    if not isinstance(loaded, dict):
        return ANYTHING
    lists = [loaded.get(field) for field in ("changed", "moved")]
    if not all(isinstance(names, list) for names in lists):
        return ANYTHING
    changed, moved = (tuple(str(name) for name in names or ()) for names in lists)
    return Notice(changed, moved, bool(loaded.get("other")))


class RedisNotices:
    """Publishes on `ringfence:changes`. Without Redis, it costs at most half a second in five."""

    def __init__(self, url: str = redis_client.URL) -> None:
        self._client = redis_client.connect(url, socket_timeout=0.5, socket_connect_timeout=0.5)
        self._silent_until = 0.0

    def __call__(self, notice: Notice) -> None:
        """Notify the web processes."""
        if time.monotonic() < self._silent_until:
            return
        try:
            self._client.publish(CHANNEL, notice.encode())
        except redis.RedisError as error:
            self._silent_until = time.monotonic() + _PAUSE_SECONDS
            log.warning("Redis takes no change notices (%s); open pages poll the database in the meantime", error)

    def close(self) -> None:
        self._client.close()
