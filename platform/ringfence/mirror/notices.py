"""Tiny "these connectors changed" notices over Redis, for the event streams of open pages."""

import json
import logging
import time

import redis

CHANNEL = "ringfence:changes"
_PAUSE_SECONDS = 5.0

log = logging.getLogger(__name__)


class RedisNotices:
    """Publishes names on `ringfence:changes`. Redis away costs half a second every five, and no more."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, socket_timeout=0.5, socket_connect_timeout=0.5)
        self._silent_until = 0.0

    def __call__(self, names: list[str]) -> None:
        """Tell about changed connectors; an empty list tells that something else changed (workers, leader)."""
        if time.monotonic() < self._silent_until:
            return
        try:
            self._client.publish(CHANNEL, json.dumps(names))
        except redis.RedisError as error:
            self._silent_until = time.monotonic() + _PAUSE_SECONDS
            log.warning("Redis takes no change notices (%s); open pages poll the database meanwhile", error)

    def close(self) -> None:
        self._client.close()
