"""Which files of a folder belong to the table, and which columns of its rows are not in the files: those in the names
of folders, and those that metadata have.
"""

import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import unquote

from ringfence.connectors.api import ConnectorError, RetriableError, Schema
from ringfence.connectors.builtin.files.places import FileChanged, FileInfo, Place

if TYPE_CHECKING:
    import pyarrow

_NULL = "__HIVE_DEFAULT_PARTITION__"
_HUDI_COLUMN = "_hoodie_commit_time"
"""A column in every file of such a table."""


def folder_values(file: str) -> dict[str, str | None]:
    """Return the columns in the names of folders, as Hive and Spark write them: `day=2026-01-31/part-0.parquet`."""
    values: dict[str, str | None] = {}
    for folder in file.split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if name and equals:
            values[unquote(name)] = None if value == _NULL else unquote(value)
    return values


def check_names(files: Sequence[str]) -> None:
    """Raise `ConnectorError` if the files alone do not determine the table's rows, at any depth."""
    for name in files:
        *folders, last = name.split("/")
        if "_delta_log" in folders:
            raise _table_error("a Delta table", "its log determines which of them are valid")
        if folders[-1:] == ["metadata"] and last.endswith(".metadata.json"):
            raise _table_error("an Iceberg table", "its metadata determine which of them are valid")
        if "_temporary" in folders:
            raise ConnectorError(
                "A Spark job is writing this table, or was stopped while it did: there is a folder _temporary. Wait "
                "until the job ends, or delete that folder, and restart the task."
            )


def check_columns(columns: Sequence[str]) -> None:
    """Raise `ConnectorError` for a file of a Hudi table, whose files keep older versions of rows."""
    if _HUDI_COLUMN in columns:
        raise _table_error("a Hudi table", "its timeline determines which of them are valid")


def is_data(name: str) -> bool:
    """Return whether Spark would read the file: no part of its path begins with an underscore, except for a column's
    folder.
    """
    return not any(part.startswith("_") and "=" not in part for part in name.split("/"))


def _table_error(what: str, why: str) -> ConnectorError:
    return ConnectorError(
        f"This folder contains {what}. SparkTableSource reads all Parquet files of a folder, but {why}. Write the "
        "rows to a separate folder with Spark (df.write.parquet), and name that folder."
    )


FileConstants = Mapping[str, Sequence[str | None]]
"""Columns with one value in all rows of a file: by name, Delta's name of the type, and the value as text."""


class Snapshot(ABC):
    """One state of a table. kind: of table, in words."""

    kind: ClassVar[str]
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

    kind = "Parquet"

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
