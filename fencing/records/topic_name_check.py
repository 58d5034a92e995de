"""Which topics a task may produce to. Each name is checked once, not with each record."""

import re
from collections.abc import Callable, Iterable
from typing import Final

from ringfence.connectors.api.errors import ConnectorError
from ringfence.fencing.records.writable_topics import TopicAccess

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_name(topic: str) -> None:
    """Raise `ConnectorError` for a name that no broker accepts as a topic's.

    Without this check, the client would only report in each transaction that some record could not be delivered.
    """
    if not _LEGAL.fullmatch(topic) or topic in (".", ".."):
        raise ConnectorError(
            f"The task produced a record to {topic[:300]!r}, which cannot be a topic: a name has 1 to 249 characters, "
            "a-z, A-Z, 0-9, '.', '_' and '-'. Correct the setting that names the topic, or the transform that makes "
            "the name, then restart the task"
        )


class TopicCheck:
    """offsets_topic: the topic of the task's offsets, which no record may go to. access: which topics are allowed;
    called for each batch, and returns another object if that has changed.
    """

    def __init__(self, offsets_topic: str, access: Callable[[], TopicAccess]) -> None:
        self._offsets_topic = offsets_topic
        self._access = access
        self._last_access: TopicAccess | None = None
        self._legal: set[str] = set()
        """The topics that `_last_access` allows."""

    def check(self, topic: str) -> None:
        """Raises `ConnectorError`."""
        access = self._access()
        if access is not self._last_access:
            self._legal.clear()
            self._last_access = access
        if topic in self._legal:
            return
        if topic == self._offsets_topic:
            raise ConnectorError(
                f"The task produced a record to {topic}, which holds its own source offsets: it could be taken for an "
                "offset. Send records to another topic, or give the connector another offsets.storage.topic"
            )
        check_name(topic)
        access.check(topic)
        self._legal.add(topic)

    def check_again(self, topics: Iterable[str]) -> None:
        """Raise `ConnectorError` if an uncommitted record went to a topic that is no longer allowed."""
        if self._access() is not self._last_access:
            for topic in topics:
                self.check(topic)
