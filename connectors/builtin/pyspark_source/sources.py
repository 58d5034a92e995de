"""The installed data sources. Needs PySpark, which every worker has."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.pyspark_source.ddl import parse_ddl
from ringfence.connectors.builtin.pyspark_source.settings import GROUP, OPTION, SOURCE

Reader = DataSourceStreamReader | SimpleDataSourceStreamReader


def open_source(config: Mapping[str, str]) -> DataSource:
    """Return the data source. Raises `ConnectorError` if no installed package declares it, and what the data source
    raises.
    """
    name = config[SOURCE]
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        names = ", ".join(sorted(points)) or "none"
        raise ConnectorError(
            f"{SOURCE}: no installed package has an entry point {name!r} in the group {GROUP}. Existing ones: {names}."
        )
    source_class: Any = points[name].load()
    if not (isinstance(source_class, type) and issubclass(source_class, DataSource)):
        raise ConnectorError(f"{SOURCE}: the entry point {name!r} is not a class of pyspark.sql.datasource.DataSource.")
    options = {key.removeprefix(OPTION): value for key, value in config.items() if key.startswith(OPTION)}
    return source_class(options)


def read_schema(source: DataSource) -> StructType:
    """Return the columns of a data source, which may declare them as text. Raises `ConnectorError`."""
    schema = source.schema()
    return parse_ddl(schema) if isinstance(schema, str) else schema


def open_reader(source: DataSource, schema: StructType) -> Reader:
    """Return the streaming reader. Raises `ConnectorError` if the data source only reads batches."""
    try:
        return source.streamReader(schema)
    except NotImplementedError:
        pass
    try:
        return source.simpleStreamReader(schema)
    except NotImplementedError as error:
        raise ConnectorError(
            f"{SOURCE}: {source.name()} has neither streamReader nor simpleStreamReader. A source without a streaming "
            "reader has no positions to resume from."
        ) from error
