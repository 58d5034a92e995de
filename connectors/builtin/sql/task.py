"""Queries its tables in turns, each from its committed offset on."""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ringfence.connectors.api import (
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
from ringfence.connectors.builtin.sql.columns import describe
from ringfence.connectors.builtin.sql.database import Database, explain
from ringfence.connectors.builtin.sql.modes import MODES, Batch, Mode
from ringfence.connectors.builtin.sql.settings import CONFIG_DEF
from ringfence.connectors.builtin.sql.tables import partitions_of
from ringfence.connectors.builtin.sql.zones import load_zone

logger = logging.getLogger(__name__)

IDLE_SECONDS = 0.5


class SqlSourceTask(SourceTask):
    """A row is a struct with the table's columns. What a batch holds is read under one offset and committed with it."""

    version: ClassVar[str | None] = "1.0.0"
    _connection: Connection | None = None  # so that stop() can follow a failed start

    def start(self, config: Mapping[str, str]) -> None:
        parsed = CONFIG_DEF.parse(config)
        self._interval = parsed.integer(names.POLL_INTERVAL) / 1000
        self._database = Database(parsed)
        self._engine = self._database.engine()
        try:
            connection = self._connect()
            self._tables = [
                _Table(self._database, connection, schema, name, parsed, self.context.offset_reader)
                for schema, name in json.loads(config[names.TASK_TABLES])
            ]
        except sa.exc.SQLAlchemyError as error:
            raise RetriableError(f"{names.URL}: the database cannot be read: {explain(error)}.") from error

    def poll(self) -> Sequence[SourceRecord] | None:
        now = time.monotonic()
        due = min(self._tables, key=lambda table: table.due)
        if due.due > now:
            self.context.wait(min(due.due - now, IDLE_SECONDS))
            return None
        try:
            batch = due.mode.read(self._connect(), due.offset)
        except sa.exc.SQLAlchemyError as error:
            self._disconnect()
            raise RetriableError(f"The table {due.name} cannot be read: {explain(error)}.") from error
        # Behind the others that are due, so that a long table holds up none.
        due.due = now if batch.more else now + self._interval
        return due.take(batch)

    def stop(self) -> None:
        self._disconnect()

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


class _Table:
    """One table, and how far it was read."""

    def __init__(
        self,
        database: Database,
        connection: Connection,
        schema: str | None,
        name: str,
        parsed: ParsedConfig,
        reader: OffsetReader,
    ) -> None:
        self.name = f"{schema}.{name}" if schema else name
        table = sa.Table(name, sa.MetaData(), schema=schema, autoload_with=connection, resolve_fks=False)
        self.mode: Mode = MODES[parsed.string(names.MODE)](database, table, parsed)
        self.due = 0.0
        zone, numeric = load_zone(parsed.string(names.ZONE)), parsed.string(names.NUMERIC)
        types = [describe(column, zone, numeric, wide=database.kind == "sqlite") for column in table.columns]
        # SQLAlchemy's names are of a class of its own, which no converter knows.
        fields = {str(column.name): one.schema for column, one in zip(table.columns, types, strict=True)}
        self._schema = struct(fields, name)
        self._convert = [(place, one.value_of) for place, one in enumerate(types) if one.value_of is not None]
        self._topic = parsed.string(names.PREFIX) + name
        candidates = partitions_of(database, (schema, name))
        self._partition = candidates[0]
        found = [offset for offset in reader.offsets(candidates) if offset is not None]
        self.offset: SourceOffset | None = found[0] if found else None
        logger.info("Reading %s from %s on", self.name, self.offset or "its beginning")

    def take(self, batch: Batch) -> Sequence[SourceRecord]:
        """The batch as records."""
        if not batch.rows:
            self.offset = batch.end or self.offset
            return [] if batch.end is None else [OffsetRecord(self._partition, batch.end)]
        columns = [*zip(*batch.rows, strict=True)]
        for place, value_of in self._convert:
            columns[place] = tuple(None if value is None else value_of(value) for value in columns[place])
        last = batch.offset_of(len(batch.rows) - 1)
        self.offset = last or self.offset
        return StructBatch(self._partition, last, self._topic, self._schema, columns, batch.offset_of)
