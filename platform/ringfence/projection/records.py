"""What the appliers read: a record of a log, told apart from Kafka so that tests need no broker."""

from collections.abc import Sequence
from typing import Protocol


class Record(Protocol):
    """A committed record; `fencing.topics.topic_log.LogRecord` is one. The time stamp is in milliseconds."""

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
