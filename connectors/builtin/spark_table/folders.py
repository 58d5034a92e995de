"""Folders of Parquet files: columns in the names of folders, and what makes a folder unreadable as plain files."""

from collections.abc import Sequence
from urllib.parse import unquote

from ringfence.connectors.api import ConnectorError

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
