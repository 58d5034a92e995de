"""The interface of a task's converters and transforms."""

from collections.abc import Callable
from typing import Protocol

from ringfence.connectors.api import Converters, SourceRecord
from ringfence.connectors.columns import Column
from ringfence.fencing.records.error_handling import ConversionSteps


class Convert(ConversionSteps, Protocol):
    """What the path needs from converters and transforms. Created once per task."""

    raw: bool
    """Whether `RecordBatch` is allowed."""

    def record(self, record: SourceRecord) -> SourceRecord | None:
        """Return the record after all transforms; None drops it."""
        ...

    transforms: bool

    @property
    def converters(self) -> Converters | None:
        """The converters, if `SerializedRecords` is allowed."""
        ...

    @property
    def column(self) -> Callable[[Column], list[bytes | None] | None] | None:
        """A function that transforms and converts the values of many records at once, and returns None for records that
        must be handled one by one. None if all must be.
        """
        ...
