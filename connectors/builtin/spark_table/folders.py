"""Folders of Parquet files: what the names of files and folders tell, and what the files alone do not."""

from collections.abc import Sequence
from urllib.parse import unquote

from ringfence.connectors.api import ConnectorError

_NULL = "__HIVE_DEFAULT_PARTITION__"
_HUDI_COLUMN = "_hoodie_commit_time"
"""In every file of such a table."""


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
