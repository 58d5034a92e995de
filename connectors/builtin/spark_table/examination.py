"""Tests the connection to a table: why it cannot be read and divided, or what it has."""

from collections.abc import Mapping
from contextlib import closing
from typing import Final

from ringfence.connectors.api import ConfigException, ConnectorError, Examination, ParsedConfig
from ringfence.connectors.builtin.files.places import list_place_settings
from ringfence.connectors.builtin.files.settings import URL
from ringfence.connectors.builtin.spark_table import settings as names
from ringfence.connectors.builtin.spark_table.connector import CONFIG_DEF, NEEDS_SQLALCHEMY
from ringfence.connectors.builtin.spark_table.parquet_table import ParquetTable
from ringfence.connectors.sdk.diagnosis import diagnose

_REACHES: Final = frozenset(
    {URL, names.VERSION, names.METADATA, *names.OF_DATABASE, *(key.name for key in list_place_settings())}
)


def examine(config: Mapping[str, str]) -> Examination:
    """Return what the table or the database has, or why it cannot be read."""
    if not config.get(URL, "").strip():
        return Examination({URL: ["Say where the table is: a folder, a bucket or a database."]})
    own = {name: value for name, value in config.items() if name in _REACHES}
    try:
        settings = CONFIG_DEF.parse({names.TOPIC: "t", **own})
        if settings.string(URL).strip().startswith(names.JDBC):
            return _examine_database(settings)
        with closing(ParquetTable(settings)) as table:
            return Examination(summary=table.summarise())
    except (ConfigException, ConnectorError) as error:
        return Examination({names.find_setting(str(error)): [str(error)]})
    except OSError as error:
        diagnosis = diagnose(error, config[URL].strip())
        return Examination({URL: [diagnosis.text if diagnosis else str(error)]})


def _examine_database(settings: ParsedConfig) -> Examination:
    """List the tables, until one is chosen. Raises `ConnectorError`."""
    try:
        import sqlalchemy as sa

        from ringfence.connectors.builtin.spark_table.jdbc_table import LOGIN, JdbcTable, open_database
        from ringfence.connectors.builtin.sql.examination import describe_failure, summarise_tables
    except ModuleNotFoundError:
        return Examination({URL: [NEEDS_SQLALCHEMY]})
    try:
        database = open_database(settings)
        with closing(database.engine().connect()) as connection:
            tables = sorted(sa.inspect(connection).get_table_names())
    except sa.exc.SQLAlchemyError as error:
        return describe_failure(error, LOGIN)
    if str(settings.get(names.DBTABLE) or "").strip():
        with closing(JdbcTable(settings)) as table:
            table.check()
            return Examination(summary=table.summarise())
    if not tables:
        return Examination({names.DBTABLE: ["This user sees no table in the database."]})
    only = {names.DBTABLE: tables[0]} if len(tables) == 1 else {}
    return Examination(summary=summarise_tables(database, tables), proposals=only)
