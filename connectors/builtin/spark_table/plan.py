"""The parts of a table, and how source offsets hold them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from ringfence.connectors.api import ConnectorError, SourceOffset
from ringfence.connectors.builtin.spark_table import settings as names

_NULL = "__HIVE_DEFAULT_PARTITION__"
_HUDI_COLUMN = "_hoodie_commit_time"
"""In every file of such a table."""


class Part(NamedTuple):
    """Consecutive rows of one content of one file: from `first` up to `end`, which is not included.

    plan: the plan that it belongs to; row: the next one that is to be read.
    """

    plan: str
    file: str
    etag: str
    first: int
    end: int
    row: int

    @property
    def done(self) -> bool:
        return self.row >= self.end

    def as_json(self) -> dict[str, object]:
        return self._asdict()


class Head(NamedTuple):
    """A plan that is complete: all its parts are committed."""

    plan: str
    parts: int

    def as_json(self) -> dict[str, object]:
        return self._asdict()


def parse_part(offset: SourceOffset) -> Part:
    """Raises `ConnectorError`."""
    texts = [offset.get(name) for name in (names.PLAN, names.FILE, names.ETAG)]
    numbers = [offset.get(name) for name in (names.FIRST, names.END, names.ROW)]
    if all(isinstance(each, str) for each in texts) and all(type(each) is int for each in numbers):
        part = Part(*texts, *numbers)  # type: ignore[arg-type]
        if 0 <= part.first <= part.row <= part.end:
            return part
    raise ConnectorError(
        f"The source offset {dict(offset)} is not one of a part: it has {', '.join(Part._fields)}, with row between "
        "first and end. Stop the connector and alter the offset, or reset all to have a new plan made."
    )


def parse_head(offset: SourceOffset) -> Head:
    """Raises `ConnectorError`."""
    plan, parts = offset.get(names.PLAN), offset.get(names.PARTS)
    if isinstance(plan, str) and type(parts) is int and parts >= 0:
        return Head(plan, parts)
    raise ConnectorError(
        f"The source offset {dict(offset)} is not one of a plan: it has {names.PLAN} and {names.PARTS}. Stop the "
        "connector and reset its offsets to have a new plan made."
    )


def divide(groups: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """The rows of a file's parts: whole row groups, as many as are needed for `rows` rows. groups: rows of each."""
    first = end = 0
    for count in groups:
        end += count
        if end - first >= rows:
            yield first, end
            first = end
    if end > first:
        yield first, end


def own_parts(head: Head, index: int, count: int) -> range:
    """The numbers of the parts that are dealt to one of `count` tasks."""
    return range(index, head.parts, count)


def folder_values(file: str) -> dict[str, str | None]:
    """The columns that the names of folders tell, as Hive and Spark write them: `day=2026-01-31/part-0.parquet`."""
    found: dict[str, str | None] = {}
    for folder in file.split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if name and equals:
            found[unquote(name)] = None if value == _NULL else unquote(value)
    return found


def check_names(files: Sequence[str]) -> None:
    """Raises `ConnectorError` where the files alone do not say which rows the table has, at whatever depth."""
    for name in files:
        *folders, last = name.split("/")
        if "_delta_log" in folders:
            raise _table_error("a Delta table", "its log says which of them count")
        if folders[-1:] == ["metadata"] and last.endswith(".metadata.json"):
            raise _table_error("an Iceberg table", "its metadata say which of them count")
        if "_temporary" in folders:
            raise ConnectorError(
                "A Spark job is writing this table, or was stopped while it did: there is a folder _temporary. Wait "
                "until it ends, or delete that folder, and restart the task."
            )


def check_columns(columns: Sequence[str]) -> None:
    """Raises `ConnectorError` for a file of a Hudi table, whose files keep older versions of rows."""
    if _HUDI_COLUMN in columns:
        raise _table_error("a Hudi table", "its time line says which of them count")


def is_data(name: str) -> bool:
    """Whether Spark would read it: no part of its path begins with an underscore, unless it is a column's folder."""
    return not any(part.startswith("_") and "=" not in part for part in name.split("/"))


def _table_error(what: str, why: str) -> ConnectorError:
    return ConnectorError(
        f"This folder holds {what}. SparkTableSource reads all Parquet files of a folder, and {why}. Write what is to "
        "be read to a folder of its own with Spark (df.write.parquet), and name that folder."
    )
