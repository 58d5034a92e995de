"""Queries its tables, or its query, in turn, each from its committed offset."""

import json
import logging
import time
from collections.abc import Mapping, Sequence
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
    StructBatch,
)
from ringfence.connectors.api.schemas import struct
from ringfence.connectors.builtin.sql import settings as names
from ringfence.connectors.builtin.sql.columns import ColumnType, describe_all
from ringfence.connectors.builtin.sql.database import Database, explain
from ringfence.connectors.builtin.sql.modes import MODES, Batch, Mode, Relation
from ringfence.connectors.builtin.sql.queries import reflect_query
from ringfence.connectors.builtin.sql.settings import CONFIG_DEF, query_of
from ringfence.connectors.builtin.sql.tables import QUERY_PARTITION, partitions_of, reflect_table

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
        self._engine = self._database.engine()
        try:
            self._readings = self._open(settings, json.loads(config.get(names.TASK_TABLES, "[]")))
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
        # After the others that are due, so that a long table delays none.
        due.due = now if batch.more else now + self._interval
        return due.take(batch)

    def stop(self) -> None:
        self._disconnect()

    def _open(self, settings: ParsedConfig, tables: Sequence[tuple[str | None, str]]) -> "list[_Reading]":
        prefix = settings.string(names.PREFIX)
        if query := query_of(settings):
            relation = reflect_query(self._database, self._connect(), query)
            return [self._read(settings, relation, "The query", prefix, None, [QUERY_PARTITION])]
        return [
            self._read(
                settings,
                reflect_table(self._connect(), (schema, name)),
                f"The table {schema}.{name}" if schema else f"The table {name}",
                prefix + name,
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
        mode = MODES[settings.string(names.MODE)](self._database, relation, settings)
        columns = describe_all(relation, settings, wide=self._database.kind == "sqlite")
        return _Reading(name, topic, struct_name, mode, columns, partitions, self.context.offset_reader)

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
        self,
        name: str,
        topic: str,
        struct_name: str | None,
        mode: Mode,
        columns: Sequence[tuple[str, ColumnType]],
        partitions: Sequence[Mapping[str, object]],
        reader: OffsetReader,
    ) -> None:
        """name: for messages. partitions: the source partition, then other names that it may have had."""
        self.name = name
        self.mode = mode
        self.due = 0.0
        self._schema = struct({column: one.schema for column, one in columns}, struct_name)
        self._convert = [(place, one.value_of) for place, (_, one) in enumerate(columns) if one.value_of is not None]
        self._topic = topic
        self._partition = dict(partitions[0])
        offsets = [offset for offset in reader.offsets([dict(one) for one in partitions]) if offset is not None]
        self.offset: SourceOffset | None = offsets[0] if offsets else None
        logger.info("Reading %s from %s on", self.name, self.offset or "its beginning")

    def take(self, batch: Batch) -> Sequence[SourceRecord]:
        """Return the batch as records."""
        if not batch.rows:
            self.offset = batch.end or self.offset
            return [] if batch.end is None else [OffsetRecord(self._partition, batch.end)]
        columns = [*zip(*batch.rows, strict=True)]
        for place, value_of in self._convert:
            columns[place] = tuple(None if value is None else value_of(value) for value in columns[place])
        last = batch.offset_of(len(batch.rows) - 1)
        self.offset = last or self.offset
        return StructBatch(self._partition, last, self._topic, self._schema, columns, batch.offset_of)
