"""Which files of a folder belong to the table, and which columns of its rows are not in the files."""

import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

from ringfence.connectors.api import ConnectorError, RetriableError, Schema
from ringfence.connectors.builtin.files.places import FileChanged, FileInfo, Place
from ringfence.connectors.builtin.spark_table.folders import check_names, is_data

if TYPE_CHECKING:
    import pyarrow

FileConstants = Mapping[str, Sequence[str | None]]
"""Columns with one value in all rows of a file: by name, Delta's name of the type, and the value as text."""


class Snapshot(ABC):
    """One state of a table."""

    version: str | None = None
    """The version; None if tables have no versions."""
    files: Sequence[FileInfo]

    @abstractmethod
    def tell_columns(self, file: FileInfo, schema: "pyarrow.Schema") -> FileConstants | None:
        """Return the columns of a file's rows that are not in it; None: those in the names of its folders.

        schema: the file's. Raises `ConnectorError` if its columns are not the table's.
        """


class FolderSnapshot(Snapshot):
    """All files in a folder. Raises `ConnectorError` if the files alone do not determine the rows."""

    def __init__(self, files: Sequence[FileInfo]) -> None:
        check_names([file.name for file in files])
        self.files = [file for file in files if is_data(file.name)]

    def tell_columns(self, file: FileInfo, schema: "pyarrow.Schema") -> FileConstants | None:
        return None


MOST_BYTES: Final = 256 << 20
"""Of one file of a table's metadata, after decompression."""


def check_size(file: FileInfo, size: int) -> None:
    """Raise `ConnectorError` if a file of the metadata is larger than `MOST_BYTES`."""
    if size > MOST_BYTES:
        raise ConnectorError(
            f"File {file.name} of the table's metadata is larger than {MOST_BYTES >> 20} MB. Write a checkpoint, or "
            "expire snapshots."
        )


@contextmanager
def metadata_errors(kind: str) -> Iterator[None]:
    """Translate what broken or hostile metadata make the parsers raise to `ConnectorError`, which quotes none of it."""
    import pyarrow

    broken = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError, RecursionError, zlib.error)
    try:
        yield
    except (*broken, pyarrow.ArrowException) as error:
        raise ConnectorError(
            f"The metadata of the {kind} table cannot be read ({type(error).__name__}). Check that another program did "
            "not change them, and restart the task."
        ) from error


def read_whole(place: Place, file: FileInfo) -> bytes:
    """Return the content of a small file. Raises `RetriableError` if it has changed since it was listed, and
    `ConnectorError` if it is larger than `MOST_BYTES`.
    """
    try:
        with closing(place.open(file)) as opened:
            content: bytes = opened.stream.read(MOST_BYTES + 1)
            opened.check()
            check_size(file, len(content))
            return content
    except FileChanged as error:
        raise RetriableError(f"File {file.name} was changed or deleted while the plan was made.") from error


_DECIMAL: Final = re.compile(r"decimal\((\d+), ?(-?\d+)\)")


def find_type(name: str) -> "pyarrow.DataType | None":
    """Return Arrow's type for one of Delta's; None for nested and unknown ones."""
    import pyarrow as pa

    if match := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(match[1]), int(match[2]))
    types = {
        "string": pa.string(),
        "long": pa.int64(),
        "integer": pa.int32(),
        "short": pa.int16(),
        "byte": pa.int8(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "binary": pa.binary(),
    }
    return types.get(name)


def make_column(name: str, type: str, text: str | None, rows: int) -> tuple[Schema, Sequence[object]]:
    """Return a constant column of `rows` rows, as a Parquet file with this type would have it. Raises
    `ConnectorError`.
    """
    import pyarrow as pa

    from ringfence.connectors.builtin.files.formats.arrow_types import to_connect

    arrow = find_type(type)
    try:
        if arrow is None:
            raise pa.ArrowInvalid(f"{type} is not supported")
        value: Any = pa.array([text], pa.string()).cast(arrow)
    except pa.ArrowInvalid as error:
        raise ConnectorError(f"The column {name} has the value {text!r}, which is not a {type}: {error}.") from error
    schema, convert = to_connect(arrow, name)
    return schema, convert(value) * rows
