"""What the task asks of a file format. A new format is a module beside this one, and a line in `formats.FORMATS`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, BinaryIO, ClassVar, NamedTuple

from ringfence.connectors.api import ConnectorError, ParsedConfig, Schema


class Rows(NamedTuple):
    """Consecutive records of one file: each value, and the position after it. `schema`: of all the values."""

    values: Sequence[object]
    positions: Sequence[int]
    schema: Schema | None


class Columns(NamedTuple):
    """Consecutive records of one file whose values are structs of `schema`: the values of each field. The position
    after the first record is `first`, after the next one more, and so on.
    """

    values: Sequence[Sequence[object]]
    first: int
    schema: Schema


class FormatError(ConnectorError):
    """The file is not what the setting `format` says. The message tells where, without showing any data."""


class FormatReader(ABC):
    """Reads one file from a position on. Positions grow; reading again from one gives exactly the rest."""

    unit: ClassVar[str]
    """What positions count, and their key in source offsets: `byte` (of the decompressed file) or `row`."""
    module: ClassVar[str | None] = None
    """The package that it needs beside Ringfence's own, which the extra `files` brings."""
    compressible: ClassVar[bool] = True
    """Whether a file with a suffix such as .gz is decompressed first."""

    @abstractmethod
    def __init__(self, file: BinaryIO | Any, position: int, settings: ParsedConfig) -> None:
        """file: seekable, at its beginning. Raises `FormatError`."""

    @abstractmethod
    def read(self, limit: int) -> Rows:
        """At least one record unless the end is reached, and at most `limit`. Raises `FormatError`, OSError."""

    def read_lines(self, limit: int) -> tuple[list[bytes], int] | None:
        """The same as ready bytes, with the position after the last; None where the format has none to give."""
        return None

    def read_columns(self, limit: int) -> Columns | None:
        """The same by column; None where the format has none to give, and at the end."""
        return None

    @property
    @abstractmethod
    def at_end(self) -> bool:
        """Whether everything was given out."""
