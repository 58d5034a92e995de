"""The interface between the task and a file format. To add a format, add a module here, a line in `reading.FORMATS`,
and its name in `settings.FORMATS`.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple

from ringfence.connectors.api import ConnectorError, DataException, ParsedConfig, Schema


class Unreadable(NamedTuple):
    """Why a record cannot be read, though the file can behind it; and what was read of it."""

    error: DataException
    text: str | bytes


_NONE: Final[Mapping[int, Unreadable]] = MappingProxyType({})


class Rows(NamedTuple):
    """Consecutive records of one file: each value, and the position after it. schema: that of all values.

    unreadable: the records that cannot be read, by their index; their values do not count.
    """

    values: Sequence[object]
    positions: Sequence[int]
    schema: Schema | None
    unreadable: Mapping[int, Unreadable] = _NONE


class Columns(NamedTuple):
    """Consecutive records of one file whose values are structs of `schema`: the values of each field.

    first: the position after the first record; each record adds one.
    """

    values: Sequence[Sequence[object]]
    first: int
    schema: Schema


class FormatError(ConnectorError):
    """The file is not what the setting `format` says, and cannot be read on. The message says where, without data."""


class FormatReader(ABC):
    """Reads one file from a position. Positions increase; reading again from a position returns exactly the rest."""

    unit: ClassVar[str]
    """What positions count, and their key in source offsets: `byte` (of the decompressed file) or `row`."""
    module: ClassVar[str | None] = None
    """The package that it needs in addition to Ringfence's own; the extra `files` installs it."""
    compressible: ClassVar[bool] = True
    """Whether a file with a suffix such as .gz is decompressed first."""

    @abstractmethod
    def __init__(self, file: BinaryIO | Any, position: int, settings: ParsedConfig) -> None:
        """file: seekable, at its beginning. Raises `FormatError`."""

    @abstractmethod
    def read(self, limit: int) -> Rows:
        """Return at least one record unless at the end, and at most `limit`. Raises `FormatError`, OSError."""

    def read_lines(self, limit: int) -> tuple[list[bytes], int] | None:
        """Return the next records as encoded bytes, with the position after the last; None if the format cannot."""
        return None

    def read_columns(self, limit: int) -> Columns | None:
        """Return the next records by column; None at the end, and if the format cannot, or not these records."""
        return None

    @property
    @abstractmethod
    def at_end(self) -> bool:
        """Whether all records were returned."""


def make_distinct(names: Sequence[str]) -> list[str]:
    """Return the names in order: `column3` in place of an empty third one, `name_2` of one that was there before."""
    others = set(names)
    counts: Counter[str] = Counter()
    distinct: dict[str, None] = {}
    for place, name in enumerate(names, 1):
        base = free = name or f"column{place}"
        while free in distinct or (free in others and free != name):
            counts[base] = max(counts[base], 1) + 1
            free = f"{base}_{counts[base]}"
        distinct[free] = None
    return list(distinct)
