"""A transform for tests: it writes values in capitals."""

from collections.abc import Callable, Mapping, Sequence

from ringfence.connectors.api import (
    Converters,
    SourceRecord,
)
from ringfence.fencing.records.error_handling import Stage


class Upper:
    """Converters that can be seen at work, and a transform that drops what is called `drop`."""

    raw = False
    transforms = True
    column = None
    converters: Converters | None = None
    converter_classes: Mapping[Stage, str] = dict.fromkeys(Stage, "Upper")

    @property
    def transforms_by_class(self) -> Sequence[tuple[str, Callable[[SourceRecord], SourceRecord | None]]]:
        return [("Drop", self.record)]

    def record(self, record: SourceRecord) -> SourceRecord | None:
        return None if record.value == "drop" else record

    def key(self, topic: str, value: object, schema: object = None) -> bytes | None:
        return str(value).upper().encode()

    def value(self, topic: str, value: object, schema: object = None) -> bytes | None:
        return None if value is None else str(value).upper().encode()

    def headers(self, topic: str, headers: Sequence[tuple[str, object]]) -> list[tuple[str, bytes | None]]:
        return [(name, str(value).encode()) for name, value in headers]


def record(value: object, offset: int, source: str = "a", **more: object) -> SourceRecord:
    return SourceRecord({"file": source}, {"at": offset}, "t", value, **more)  # type: ignore[arg-type]
