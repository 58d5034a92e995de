"""Queries its tables, or its query, in turn, each from its committed offset."""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import ClassVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import (
    ConnectorError,
    OffsetReader,
    OffsetRecord,
    ParsedConfig,
    RetriableError,
    SourceOffset,
    SourceRecord,
    SourceTask,
)
from ringfence.connectors.api.schemas import struct
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.database import Database, explain
from ringfence.connectors.builtin.sql.modes import MODES, Batch, Mode, Relation
from ringfence.connectors.builtin.sql.settings import CONFIG_DEF, query_of
from ringfence.connectors.builtin.sql.tables import (
    QUERY_PARTITION,
    describe_all,
    key_of,
    partitions_of,
    reflect_query,
    reflect_table,
    topic_of,
)
from ringfence.connectors.sdk.row_records import RowReader

logger = logging.getLogger(__name__)

IDLE_SECONDS = 0.5


class SqlSourceTask(SourceTask):
    """A row is a struct with the table's columns. The rows of a batch are committed together with its offset."""

    version: ClassVar[str | None] = "1.0.0"
    _connection: Connection | None = None  # so that stop() can follow a failed start

    def start(self, config: Mapping[str, str]) -> None:
        settings = CONFIG_DEF.parse(config)
        self._interval = settings.integer(names.POLL_INTERVAL) / 1000
        self._database = Database(settings)
        self._values = self._database.values()
        self._engine = self._database.engine(self._values)
        try:
            with closing(self._database.engine().connect()) as catalog:
                self._readings = self._open(catalog, settings, json.loads(config.get(names.TASK_TABLES, "[]")))
        except sa.exc.SQLAlchemyError as error:
            raise RetriableError(f"{names.URL}: the database cannot be read: {explain(error)}.") from error

    def poll(self) -> Sequence[SourceRecord] | None:
        now = time.monotonic()
        due = min(self._readings, key=lambda reading: reading.due)
        if due.due > now:
            self.context.wait(min(due.due - now, IDLE_SECONDS))
            return None
        try:
            batch = due.mode.read(self._connect(), due.offset)
        except sa.exc.DataError as error:  # another try reads the same value
            raise ConnectorError(
                f"{due.name} cannot be read: {explain(error)}. Leave the value out of the query, or correct it in the "
                "database, then restart the task"
            ) from error
        except sa.exc.SQLAlchemyError as error:
            self._disconnect()
            raise RetriableError(f"{due.name} cannot be read: {explain(error)}.") from error
        except UnicodeDecodeError as error:
            raise ConnectorError(
                f"{due.name} has text that is not in UTF-8, since the database does not check its encoding. Convert it "
                "in the database, or in a query, then restart the task"
            ) from error
        # After the others that are due, so that a long table delays none.
        due.due = now if batch.more else now + self._interval
        return due.take(batch)

    def stop(self) -> None:
        self._disconnect()

    def _open(
        self, catalog: Connection, settings: ParsedConfig, tables: Sequence[tuple[str | None, str]]
    ) -> "list[_Reading]":
        prefix = settings.string(names.PREFIX)
        if query := query_of(settings):
            relation = reflect_query(self._database, catalog, query)
            return [self._read(settings, relation, "The query", prefix, None, [QUERY_PARTITION])]
        return [
            self._read(
                settings,
                reflect_table(catalog, (schema, name)),
                f"The table {schema}.{name}" if schema else f"The table {name}",
                topic_of(prefix, name),
                name,
                partitions_of(self._database, (schema, name)),
            )
            for schema, name in tables
        ]

    def _read(
        self,
        settings: ParsedConfig,
        relation: Relation,
        name: str,
        topic: str,
        struct_name: str | None,
        partitions: Sequence[Mapping[str, object]],
    ) -> "_Reading":
        mode = MODES[settings.string(names.MODE)](self._database, relation, settings, self._values)
        columns = describe_all(relation, self._values, settings.string(names.NUMERIC))
        schema = struct({column: one.schema for column, one in columns}, struct_name)
        rows = RowReader(
            name, topic, schema, [one.value_of for _, one in columns], key_of(relation, mode.position_columns)
        )
        return _Reading(rows, mode, partitions, self.context.offset_reader)

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


class _Reading:
    """One table or query, and its position."""

    def __init__(
        self, rows: RowReader, mode: Mode, partitions: Sequence[Mapping[str, object]], reader: OffsetReader
    ) -> None:
        """partitions: the source partition, then other names that it may have had."""
        self.name = rows.where
        self.rows = rows
        self.mode = mode
        self.due = 0.0
        self._partition = dict(partitions[0])
        offsets = [offset for offset in reader.offsets([dict(one) for one in partitions]) if offset is not None]
        self.offset: SourceOffset | None = offsets[0] if offsets else None
        logger.info("Reading %s from %s on", self.name, self.offset or "its beginning")

    def take(self, batch: Batch) -> Sequence[SourceRecord]:
        """Return the batch as records."""
        if not batch.rows:
            self.offset = batch.end or self.offset
            return [] if batch.end is None else [OffsetRecord(self._partition, batch.end)]
        last = batch.offset_of(len(batch.rows) - 1)
        records = self.rows.records(self._partition, last, [*zip(*batch.rows, strict=True)], batch.offset_of)
        self.offset = last or self.offset
        return records
