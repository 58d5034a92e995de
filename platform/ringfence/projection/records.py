"""The records that the projections read, independent of Kafka's clients, so that tests need no broker; and their
strings without characters that a database refuses: any client may have written the records.
"""

import json
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


def clean(text: str) -> str:
    """Remove NUL, which PostgreSQL refuses, and lone surrogates, which UTF-8 cannot encode."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def loads_clean(packed: str) -> dict[str, str]:
    """Parse a packed object of strings. Lone surrogates, which JSON may contain, become question marks."""
    loaded: dict[str, str] = json.loads(packed)
    if "\\ud" not in packed:
        return loaded
    return {clean(key): clean(value) for key, value in loaded.items()}
