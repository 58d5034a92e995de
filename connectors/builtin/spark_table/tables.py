"""The kinds of tables. To add a kind, add a module here and a line in each function."""

from typing import Any

from ringfence.connectors.api import ConnectorError, ParsedConfig, SourceOffset
from ringfence.connectors.builtin.files.settings import URL
from ringfence.connectors.builtin.spark_table import key_ranges, parquet_table
from ringfence.connectors.builtin.spark_table import settings as names
from ringfence.connectors.builtin.spark_table.plan import Part, Table


def open_table(settings: ParsedConfig) -> Table[Any]:
    """Return the table at the configured address. Raises `ConnectorError`."""
    if not settings.string(URL).strip().startswith(names.JDBC):
        return parquet_table.ParquetTable(settings)
    try:
        from ringfence.connectors.builtin.spark_table.jdbc_table import JdbcTable
    except ModuleNotFoundError as error:
        raise ConnectorError(
            "Database tables need SQLAlchemy, which is not installed here: pip install 'ringfence[sql]' on every "
            "worker."
        ) from error
    return JdbcTable(settings)


def parse_part(offset: SourceOffset) -> Part:
    """Parse a part of any kind of table. Raises `ConnectorError`."""
    return key_ranges.parse_part(offset) if names.KEY in offset else parquet_table.parse_part(offset)
