"""The plan of a table: its parts, how source offsets hold them, and how they are dealt."""

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from ringfence.connectors.api import ConnectorError, Schema, SourceOffset
from ringfence.connectors.builtin.spark_table import settings as names

_SLICE_SECONDS: Final = 0.5


class Part(Protocol):
    """A share of the rows, and how far it was read."""

    @property
    def plan(self) -> str:
        """The plan that it belongs to."""
        ...

    @property
    def done(self) -> bool: ...

    def as_json(self) -> dict[str, object]: ...


PartT = TypeVar("PartT", bound=Part)


class Head(NamedTuple):
    """A plan that is complete: all its parts are committed. version: of the table, where it has versions."""

    plan: str
    parts: int
    version: str | None = None

    def as_json(self) -> dict[str, object]:
        return {key: value for key, value in self._asdict().items() if value is not None}


class Batch(NamedTuple, Generic[PartT]):
    """Rows of a part, none at its end only: the values of each field of the schema.

    after: the part after the last row; after_row(number): after that row, counted from 0.
    """

    schema: Schema
    columns: Sequence[Sequence[object]]
    after: PartT
    after_row: Callable[[int], PartT]


class Table(ABC, Generic[PartT]):
    """A kind of table that can be divided. Methods raise `ConnectorError`, `RetriableError`, OSError."""

    partition: Mapping[str, object]
    """The source partition of the plan; those of parts have their number beside."""
    address: str
    """For people."""
    version: str | None = None
    """What was divided, where tables have versions."""

    @abstractmethod
    def check(self) -> None:
        """Raises unless it can be read and divided. Quick, whatever is in it."""

    @abstractmethod
    def divide(self, plan: str, preview: bool) -> Iterator[PartT]:
        """All parts, always in the same order. preview: a few are enough."""

    @abstractmethod
    def parse_part(self, offset: SourceOffset) -> PartT: ...

    @abstractmethod
    def read(self, part: PartT, limit: int) -> Batch[PartT]:
        """The next rows of a part: always the same ones in the same order."""

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
        """The whole plan, once all parts were taken."""

    def take(self) -> list[tuple[int, PartT]]:
        """The next parts with their numbers, as many as half a second is enough for."""
        end = time.monotonic() + _SLICE_SECONDS
        found: list[tuple[int, PartT]] = []
        for part in self._parts:
            found.append((self._count, part))
            self._count += 1
            if time.monotonic() >= end:
                return found
        self.head = Head(self._id, self._count, self._table.version)
        return found


def parse_head(offset: SourceOffset) -> Head:
    """Raises `ConnectorError`."""
    plan, parts, version = (offset.get(name) for name in (names.PLAN, names.PARTS, "version"))
    if isinstance(plan, str) and type(parts) is int and parts >= 0 and isinstance(version, str | NoneType):
        return Head(plan, parts, version)
    raise ConnectorError(
        f"The source offset {dict(offset)} is not one of a plan: it has {names.PLAN} and {names.PARTS}. Stop the "
        "connector and reset its offsets to have a new plan made."
    )


def own_parts(head: Head, index: int, count: int) -> range:
    """The numbers of the parts that are dealt to one of `count` tasks."""
    return range(index, head.parts, count)


def part_error(offset: SourceOffset, fields: tuple[str, ...], rule: str) -> ConnectorError:
    """A source offset that is not one of a part."""
    return ConnectorError(
        f"The source offset {dict(offset)} is not one of a part: it has {', '.join(fields)}, {rule}. Stop the "
        "connector and alter the offset, or reset all to have a new plan made."
    )
