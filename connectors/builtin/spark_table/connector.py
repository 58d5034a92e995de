"""SparkTableSource: reads a table that is too big for one task, each row once.

To add a kind of table, add a module here and a line in `open_table` and `parse_part`.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar, Final

from ringfence.connectors.api import (
    CatalogEntry,
    Category,
    Choice,
    ConfigDef,
    ConfigException,
    ConnectorError,
    ExactlyOnceSupport,
    Examination,
    Guarantee,
    ParsedConfig,
    ShownIf,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from ringfence.connectors.builtin.files.places import PLACES, list_place_settings
from ringfence.connectors.builtin.files.settings import URL, define_values
from ringfence.connectors.builtin.spark_table import key_ranges, parquet_table
from ringfence.connectors.builtin.spark_table import settings as names
from ringfence.connectors.builtin.spark_table.parquet_table import ParquetTable
from ringfence.connectors.builtin.spark_table.plan import Part, Table, parse_head
from ringfence.connectors.sdk.diagnosis import diagnose

NEEDS_SQLALCHEMY: Final = (
    "Database tables need SQLAlchemy, which is not installed here: pip install 'ringfence[sql]' on every worker."
)


def open_table(settings: ParsedConfig) -> Table[Any]:
    """Return the table at the configured address. Raises `ConnectorError`."""
    if not settings.string(URL).strip().startswith(names.JDBC):
        return parquet_table.ParquetTable(settings)
    try:
        from ringfence.connectors.builtin.spark_table.jdbc_table import JdbcTable
    except ModuleNotFoundError as error:
        raise ConnectorError(NEEDS_SQLALCHEMY) from error
    return JdbcTable(settings)


def parse_part(offset: SourceOffset) -> Part:
    """Parse a part of any kind of table. Raises `ConnectorError`."""
    return key_ranges.parse_part(offset) if names.KEY in offset else parquet_table.parse_part(offset)


CONFIG_DEF: Final = ConfigDef([*names.OWN.keys.values(), *list_place_settings()])
define_values(CONFIG_DEF.group(), lambda *values: ShownIf(URL, lambda url: not url.startswith(names.JDBC), *values))


class SparkTableSourceConnector(SourceConnector):
    """The parts of a plan are distributed to `tasks.max` tasks, each of them a Spark job on an executor."""

    version: ClassVar[str] = "1.0.0"
    own_settings = CONFIG_DEF
    preview_while_running = True
    catalog: ClassVar[CatalogEntry | None] = CatalogEntry(
        title="A big table, once",
        summary="All rows of a database table, a Delta or Iceberg table, or a folder of Parquet files.",
        category=Category.FILES,
        guarantee=Guarantee.EXACTLY_ONCE,
        needs=(
            "A table that does not change while it is read, or that has versions.",
            "pip install 'ringfence[files]' where the tasks run; 'ringfence[gcs]' for Google Cloud, 'ringfence[azure]' "
            "for Azure, 'ringfence[sql]' for databases.",
        ),
        sample={"tasks.max": "4", "url": "file:///data/flights", "topic": "flights"},
        icon="table-properties",
        selects=(names.DBTABLE, names.COLUMN, names.COUNT, names.VERSION),
    )

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        from ringfence.connectors.builtin.spark_table.task import SparkTableSourceTask

        return SparkTableSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if self.context.trial:
            return [{**self.config, names.SHARE: "0/1", names.PREVIEW: "true"}]
        if self._is_read():
            return []
        return [{**self.config, names.SHARE: f"{index}/{max_tasks}"} for index in range(max_tasks)]

    def _is_read(self) -> bool:
        """Return whether all parts of the plan are read to their ends."""
        with closing(open_table(CONFIG_DEF.parse(self.config))) as table:
            partition = {**table.partition}
        head = self.context.offset_reader.offset(partition)
        if head is None:
            return False
        parts = [{**partition, names.PART_KEY: number} for number in range(parse_head(head).parts)]
        return all(offset and parse_part(offset).done for offset in self.context.offset_reader.offsets(parts))

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        try:
            settings = CONFIG_DEF.parse(config)
        except ConfigException:
            return {}  # the definition has already reported it
        errors: dict[str, list[str]] = {}
        for kind in PLACES.values():
            for setting, problem in kind.find_problems(settings):
                errors.setdefault(setting, []).append(problem)
        try:
            with closing(open_table(settings)) as table:
                table.check()
        except (ConnectorError, OSError) as error:
            errors.setdefault(names.find_setting(str(error)), []).append(str(error))
        return errors

    def examine(self, config: Mapping[str, str]) -> Examination:
        """Reach the files or the database; read a table's columns."""
        return examine(config)

    def list_choices(self, config: Mapping[str, str]) -> Mapping[str, Sequence[Choice]]:
        """Return a database's tables, and the columns that can divide a table."""
        settings = CONFIG_DEF.parse(config)
        if not settings.string(URL).strip().startswith(names.JDBC):
            return {}
        from ringfence.connectors.builtin.spark_table.jdbc_table import list_choices

        return list_choices(settings)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Supported: parts name rows of a content that is checked on each read, and are committed before their rows."""
        return ExactlyOnceSupport.SUPPORTED

    def explain_guarantee(self, config: Mapping[str, str]) -> str:
        if not config.get(URL, "").strip().startswith(names.JDBC):
            return ""
        return (
            "This holds if the table is not written while it is read. Otherwise rows may be missed or repeated: use "
            "PostgresSource."
        )

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Accept the deletion of any offset; a new one must have the form of a plan's or of a part's."""
        for partition, offset in offsets:
            if not isinstance(partition.get(names.URL_KEY), str):
                raise ConnectorError(f"The partition {dict(partition)} must name the table under {names.URL_KEY!r}.")
            if offset is not None:
                (parse_part if names.PART_KEY in partition else parse_head)(offset)
        return True


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
