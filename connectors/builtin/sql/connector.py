"""SqlSource: the counterpart of the JDBC source connector."""

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import ClassVar, Final

from ringfence.connectors.api import (
    CatalogEntry,
    Category,
    Choice,
    ConfigException,
    ConnectorError,
    ExactlyOnceSupport,
    Examination,
    Guarantee,
    ParsedConfig,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceTask,
)
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.settings import CONFIG_DEF

logger = logging.getLogger(__name__)

_EXTRA: Final = "SqlSource needs SQLAlchemy, which is not installed here: pip install 'ringfence[sql]' on every worker."


class SqlSourceConnector(SourceConnector):
    """Tables are distributed to up to `tasks.max` tasks; each task queries its tables in turn. A query has one task."""

    version: ClassVar[str] = "1.0.0"
    reads_offsets = False
    own_settings = CONFIG_DEF
    aliases: ClassVar[tuple[str, ...]] = ("io.confluent.connect.jdbc.JdbcSourceConnector",)
    preview_while_running = True
    catalog: ClassVar[CatalogEntry | None] = CatalogEntry(
        title="SQL tables by queries",
        summary="New and changed rows of PostgreSQL, MySQL, MariaDB and SQLite.",
        category=Category.DATABASES,
        guarantee=Guarantee.EXACTLY_ONCE,
        needs=(
            "An account with SELECT permission.",
            "A mode that misses no row: xmin on PostgreSQL. Other modes miss rows of transactions that commit late.",
            "pip install 'ringfence[sql]' where the tasks run.",
        ),
        sample={
            "tasks.max": "1",
            "connection.url": "postgresql://db.example.com:5432/shop",
            "connection.user": "reader",
            "mode": "xmin",
            "topic.prefix": "shop.",
        },
        icon="table-2",
        keywords=("jdbc", "query"),
        selects=(names.TABLES, names.MODE, names.INCREMENTING, names.TIMESTAMP),
    )

    @classmethod
    def task_class(cls) -> type[SourceTask]:
        try:
            from ringfence.connectors.builtin.sql.task import SqlSourceTask
        except ModuleNotFoundError as error:
            raise ConnectorError(_EXTRA) from error
        return SqlSourceTask

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        self._settings = CONFIG_DEF.parse(config)
        self._stopped = threading.Event()
        self._query = names.query_of(self._settings) is not None
        if self._query:
            return
        self._tables = _read_tables(self._settings)
        threading.Thread(target=self._watch, name="tables", daemon=True).start()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if self._query:
            return [dict(self.config)]
        count = min(max_tasks, len(self._tables))
        dealt = [self._tables[index::count] for index in range(count)]
        return [{**self.config, names.TASK_TABLES: json.dumps(tables)} for tables in dealt]

    def stop(self) -> None:
        if hasattr(self, "_stopped"):
            self._stopped.set()

    def validate(self, config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        try:
            settings = CONFIG_DEF.parse(config)
        except ConfigException:
            return {}  # the definition has already reported it
        try:
            from ringfence.connectors.builtin.sql.examination import find_errors
        except ModuleNotFoundError:
            return {"connector.class": [_EXTRA]}
        return find_errors(settings, renamed=bool(config.get("transforms", "").strip()))

    def list_choices(self, config: Mapping[str, str]) -> Mapping[str, Sequence[Choice]]:
        """Return tables, and columns to read by."""
        from ringfence.connectors.builtin.sql.examination import list_choices

        return list_choices(CONFIG_DEF.parse(config))

    def examine(self, config: Mapping[str, str]) -> Examination:
        try:
            from ringfence.connectors.builtin.sql.examination import examine
        except ModuleNotFoundError:
            return Examination({"connector.class": [_EXTRA]})
        return examine(config)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Unsupported if a table is read as a whole: its rows have no positions."""
        bulk = config.get(names.MODE, "").strip() == names.BULK
        return ExactlyOnceSupport.UNSUPPORTED if bulk else ExactlyOnceSupport.SUPPORTED

    def explain_guarantee(self, config: Mapping[str, str]) -> str:
        match config.get(names.MODE, "").strip():
            case names.BULK:
                return f"Each reading delivers all rows again. Choose another {names.MODE}."
            case names.INCREMENTING_MODE if "sqlite:" in config.get(names.URL, ""):
                return ""  # one writer at a time
            case names.INCREMENTING_MODE:
                return (
                    "Rows of transactions that commit late are missed, even if they are late by a moment. Choose "
                    f"{names.XMIN} for PostgreSQL, or {names.BOTH_MODE}."
                )
            case names.TIMESTAMP_MODE | names.BOTH_MODE:
                return f"Rows of transactions that take longer than {names.DELAY} are missed."
            case _:
                return ""

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> bool:
        """Accept the deletion of any offset; a new one needs a partition with a table or the query, and integers."""
        for partition, offset in offsets:
            if not isinstance(partition.get("table"), str) and partition != {"query": "query"}:
                raise ConnectorError(
                    f'The partition {dict(partition)} must name a table under \'table\', or be {{"query": "query"}}.'
                )
            numbers = [value for key, value in (offset or {}).items() if key != "after"]
            if any(not isinstance(one, int) or isinstance(one, bool) for one in numbers if one is not None):
                raise ConnectorError(f"The offset {dict(offset or {})} must contain only integers.")
        return True

    def _watch(self) -> None:
        """Request a reconfiguration when tables are added or removed."""
        while not self._stopped.wait(self._settings.integer(names.TABLE_INTERVAL) / 1000):
            try:
                tables = _read_tables(self._settings)
            except ConnectorError as error:
                logger.warning("Tables cannot be listed now: %s", error)
                continue
            if tables != self._tables:
                self._tables = tables
                self.context.request_task_reconfiguration()


def _read_tables(settings: ParsedConfig) -> list[tuple[str | None, str]]:
    """Return the tables to read. Raises `ConnectorError`."""
    try:
        import sqlalchemy as sa

        from ringfence.connectors.builtin.sql.database import Database, explain
        from ringfence.connectors.builtin.sql.tables import find_topic_error, list_tables
    except ModuleNotFoundError as error:
        raise ConnectorError(_EXTRA) from error
    database = Database(settings)
    try:
        with closing(database.engine().connect()) as connection:
            tables = list_tables(database, connection, settings)
    except sa.exc.SQLAlchemyError as error:
        raise ConnectorError(f"{names.URL}: the database cannot be read: {explain(error)}.") from error
    if problem := find_topic_error(settings.string(names.PREFIX), tables):
        raise ConnectorError(problem)
    return tables
