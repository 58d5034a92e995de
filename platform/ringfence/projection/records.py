"""The records that the projections read, independent of Kafka's clients, so that tests need no broker."""

from collections.abc import Sequence
from typing import Protocol


class Record(Protocol):
    """A committed record, such as `fencing.topics.topic_log.LogRecord`. The timestamp is in milliseconds."""

    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...
