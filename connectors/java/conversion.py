"""Passes a Java connector's records through unchanged: transforms and converters have already run in Java."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ringfence.connectors.api import Schema, SourceRecord


class ReadyBytes:
    """The interface of converters and transforms for tasks that return serialized records only."""

    raw = True
    transforms = False
    column = None
    converters = None
    transforms_by_class: Sequence[tuple[str, Callable[[SourceRecord], SourceRecord | None]]] = ()
    converter_classes: Mapping[Any, str] = {}

    def record(self, record: SourceRecord) -> SourceRecord | None:
        return record

    def key(self, topic: str, value: object, schema: Schema | None) -> bytes | None:
        return _bytes(value)

    def value(self, topic: str, value: object, schema: Schema | None) -> bytes | None:
        return _bytes(value)

    def headers(self, topic: str, headers: Sequence[tuple[str, object]]) -> list[tuple[str, bytes | None]]:
        return [(name, _bytes(value)) for name, value in headers]


def _bytes(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    raise TypeError(f"a Java connector must return bytes, not {type(value).__name__}")
