"""The plan of a table: its parts, their source offsets, and their distribution to tasks."""

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from ringfence.connectors.api import ConnectorError, Schema, SourceOffset
from ringfence.connectors.builtin.spark_table import settings as names
from ringfence.connectors.sdk.row_records import RowReader

_SLICE_SECONDS: Final = 0.5


class Part(Protocol):
    """A share of the rows, and its position."""

    @property
    def plan(self) -> str:
        """The id of its plan."""
        ...

    @property
    def done(self) -> bool: ...

    def as_json(self) -> dict[str, object]: ...


PartT = TypeVar("PartT", bound=Part)


class Head(NamedTuple):
    """A complete plan: all its parts are committed. version: the table's, if it has versions."""

    plan: str
    parts: int
    version: str | None = None

    def as_json(self) -> dict[str, object]:
        return {key: value for key, value in self._asdict().items() if value is not None}


class Batch(NamedTuple, Generic[PartT]):
    """Rows of a part: the values of each field of the schema. Empty only at the part's end.

    after: the part's state after the last row. after_row(number): its state after that row, counted from 0. reader:
    what makes records of the columns if they are as they were read; None if the values fit the schema.
    """

    schema: Schema
    columns: Sequence[Sequence[object]]
    after: PartT
    after_row: Callable[[int], PartT]
    reader: RowReader | None = None


class Table(ABC, Generic[PartT]):
    """A kind of table that can be divided. Methods raise `ConnectorError`, `RetriableError`, OSError."""

    partition: Mapping[str, object]
    """The source partition of the plan; those of parts also contain their numbers."""
    address: str
    """The table's name for messages."""
    version: str | None = None
    """The version that was divided, if tables have versions."""

    @abstractmethod
    def check(self) -> None:
        """Raise unless the table can be read and divided. Fast for any size."""

    @abstractmethod
    def summarise(self) -> str:
        """Return what the table is and its columns, in a sentence. Raises what `check` and `divide` raise."""

    @abstractmethod
    def divide(self, plan: str, preview: bool) -> Iterator[PartT]:
        """Yield all parts, always in the same order. preview: a few are enough."""

    @abstractmethod
    def parse_part(self, offset: SourceOffset) -> PartT: ...

    @abstractmethod
    def read(self, part: PartT, limit: int) -> Batch[PartT]:
        """Return the next rows of a part: always the same rows in the same order."""

    def release(self) -> None:
        """Close what was opened for a part."""

    @abstractmethod
    def close(self) -> None: ...


class Planning(Generic[PartT]):
    """Divides a table, some parts at a time."""

    def __init__(self, table: Table[PartT], preview: bool) -> None:
        self._id = uuid.uuid4().hex
        self._table = table
        self._parts = table.divide(self._id, preview)
        self._count = 0
        self.head: Head | None = None
        """The whole plan, once all parts have been returned."""

    def take(self) -> list[tuple[int, PartT]]:
        """Return the next parts with their numbers, as many as are found in half a second."""
        end = time.monotonic() + _SLICE_SECONDS
        parts: list[tuple[int, PartT]] = []
        for part in self._parts:
            parts.append((self._count, part))
            self._count += 1
            if time.monotonic() >= end:
                return parts
        self.head = Head(self._id, self._count, self._table.version)
        return parts


def parse_head(offset: SourceOffset) -> Head:
    """Parse the plan's source offset. Raises `ConnectorError`."""
    plan, parts, version = (offset.get(name) for name in (names.PLAN, names.PARTS, "version"))
    if isinstance(plan, str) and type(parts) is int and parts >= 0 and isinstance(version, str | NoneType):
        return Head(plan, parts, version)
    raise ConnectorError(
        f"The source offset {dict(offset)} is not a plan's: it must have {names.PLAN} and {names.PARTS}. Stop the "
        "connector and reset its offsets to have a new plan made."
    )


def own_parts(head: Head, index: int, count: int) -> range:
    """Return the numbers of the parts of one of `count` tasks."""
    return range(index, head.parts, count)


def part_error(offset: SourceOffset, fields: tuple[str, ...], rule: str) -> ConnectorError:
    """Return the error for a source offset that is not a part's."""
    return ConnectorError(
        f"The source offset {dict(offset)} is not a part's: it must have {', '.join(fields)}, {rule}. Stop the "
        "connector and alter the offset, or reset all to have a new plan made."
    )
