"""Reads an installed data source from its committed offset. Needs PySpark, which every worker has."""

import inspect
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from ringfence.connectors.api import (
    ConnectorError,
    DataException,
    OffsetRecord,
    Schema,
    SourceOffset,
    SourceRecord,
    SourceTask,
    UnreadableRecord,
)
from ringfence.connectors.builtin.pyspark_source import settings as names
from ringfence.connectors.builtin.pyspark_source.settings import CONFIG_DEF, GROUP, OPTION, SOURCE
from ringfence.connectors.builtin.pyspark_source.types import describe, parse_ddl
from ringfence.connectors.sdk.row_records import row_text

logger = logging.getLogger(__name__)


Reader = DataSourceStreamReader | SimpleDataSourceStreamReader


def find_sources() -> dict[str, EntryPoint]:
    """Return the data sources that installed packages declare."""
    return {point.name: point for point in entry_points(group=GROUP)}


def open_source(config: Mapping[str, str]) -> DataSource:
    """Return the data source. Raises `ConnectorError` if no installed package declares it, and what the data source
    raises.
    """
    name = config[SOURCE]
    points = find_sources()
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


Offset = dict[str, Any]


def ask_latest(reader: Any, start: Offset) -> Offset:
    """Return the newest offset of a reader that plans. start: where reading would resume."""
    if inspect.signature(reader.latestOffset).parameters:
        return reader.latestOffset(start, reader.getDefaultReadLimit())  # type: ignore[no-any-return]
    return reader.latestOffset()  # type: ignore[no-any-return]


def reach(reader: Reader) -> None:
    """Have the data source reach what it reads, as for its first rows; none is taken. Raises what it raises."""
    start = reader.initialOffset()
    if isinstance(reader, DataSourceStreamReader):
        ask_latest(reader, start)
    else:
        reader.read(start)


class PySparkSourceTask(SourceTask):
    """The rows of one call of the reader are one batch, with the offset after it."""

    version: ClassVar[str | None] = "1.0.0"
    _steps: "_Steps | None" = None  # so that stop() can follow a failed start

    def start(self, config: Mapping[str, str]) -> None:
        settings = CONFIG_DEF.parse(config)
        self._topic = settings.string(names.TOPIC)
        self._interval = settings.integer(names.POLL_INTERVAL) / 1000
        self._partition = {names.SOURCE_KEY: settings.string(names.SOURCE)}
        self._name = settings.string(names.SOURCE)
        source = open_source(config)
        schema = read_schema(source)
        self._rows = describe(schema)
        reader = open_reader(source, schema)
        committed = self.context.offset_reader.offset(self._partition)
        if isinstance(reader, DataSourceStreamReader):
            self._steps = _PlannedSteps(reader, committed)
        else:
            self._steps = _SimpleSteps(reader, committed)
        logger.info("Reading %s from %s on", source.name(), committed or "its beginning")

    def poll(self) -> Sequence[SourceRecord] | None:
        assert self._steps is not None
        step = self._steps.take()
        if step is None:
            self.context.wait(self._interval)
            return None
        rows, offset = step
        records = [self._record(row, number, offset) for number, row in enumerate(_values_of(rows), 1)]
        return records or [OffsetRecord(self._partition, offset)]

    def _record(self, row: object, number: int, offset: dict[str, object]) -> SourceRecord:
        """number: the row's in its batch."""
        try:
            value = self._rows.make(row)
        except DataException as error:
            error.at(where=f"The data source {self._name}", row=f"{number} of those up to {json.dumps(offset)}")
            return UnreadableRecord(self._partition, offset, self._topic, error, _text_of(row, self._rows.schema))
        return SourceRecord(self._partition, offset, self._topic, value, None, (), None, None, None, self._rows.schema)

    def commit(self) -> None:
        if self._steps is not None:
            self._steps.commit()

    def stop(self) -> None:
        if self._steps is not None:
            self._steps.stop()


class _Steps(ABC):
    """The calls of a reader, one after another. `take` returns rows with the offset after them; None if
    there are none.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._read: Offset | None = None
        """The reader's last offset whose rows were all returned."""

    @abstractmethod
    def take(self) -> tuple[Iterable[Any], dict[str, object]] | None: ...

    def commit(self) -> None:
        """All returned rows are committed: the reader may discard them."""
        read, self._read = self._read, None
        if read is not None:
            self._reader.commit(read)

    def stop(self) -> None:
        if hasattr(self._reader, "stop"):
            self._reader.stop()


class _SimpleSteps(_Steps):
    """A reader that returns rows and the offset after them."""

    def __init__(self, reader: SimpleDataSourceStreamReader, committed: SourceOffset | None) -> None:
        super().__init__(reader)
        self._at: Offset = own_offset(committed) if committed else reader.initialOffset()

    def take(self) -> tuple[Iterable[Any], dict[str, object]] | None:
        rows, end = self._reader.read(self._at)
        row_list = list(rows)
        if not row_list and end == self._at:
            return None
        self._at = self._read = end
        return row_list, {names.OFFSET: end}


class _PlannedSteps(_Steps):
    """A reader that reports its latest offset, divides the rows into partitions, and reads these.

    The latest offset changes with time, so the plan (from, to, number of partitions) is committed before the rows of
    its second partition: an attempt that resumes divides the same rows in the same way.
    """

    def __init__(self, reader: DataSourceStreamReader, committed: SourceOffset | None) -> None:
        super().__init__(reader)
        self._partitions: Sequence[Any] = ()
        self._next = 0
        self._to: Offset | None = None
        if committed is None:
            self._at: Offset = reader.initialOffset()
        elif names.OFFSET in committed:
            self._at = own_offset(committed)
        else:
            self._resume(committed)

    def take(self) -> tuple[Iterable[Any], dict[str, object]] | None:
        if self._to is None:
            end = ask_latest(self._reader, self._at)
            if end == self._at:
                return None
            self._to, self._next = end, 0
            self._partitions = list(self._reader.partitions(self._at, end))
            if self._partitions:
                return (), self._position()
        rows: Iterable[Any] = ()
        if self._next < len(self._partitions):
            rows = self._reader.read(self._partitions[self._next])
            self._next += 1
        if self._next < len(self._partitions):
            return rows, self._position()
        self._at = self._read = self._to
        self._to = None
        return rows, {names.OFFSET: self._at}

    def _position(self) -> dict[str, object]:
        return {
            names.START: self._at,
            names.END: self._to,
            names.PARTITIONS: len(self._partitions),
            names.READ: self._next,
        }

    def _resume(self, committed: SourceOffset) -> None:
        start, end = committed.get(names.START), committed.get(names.END)
        count, read = committed.get(names.PARTITIONS), committed.get(names.READ)
        if not isinstance(start, dict) or not isinstance(end, dict) or not isinstance(read, int):
            raise wrong_offset(committed)
        self._at, self._to, self._next = start, end, read
        self._partitions = list(self._reader.partitions(start, end))
        if len(self._partitions) != count:
            raise ConnectorError(
                f"The data source divided the rows between two offsets into {count} partitions before, but into "
                f"{len(self._partitions)} now. Its partitions(start, end) must depend only on start and end."
            )


def own_offset(committed: SourceOffset) -> Offset:
    """Return the offset in the data source's own form. Raises `ConnectorError`."""
    offset = committed.get(names.OFFSET)
    if not isinstance(offset, dict):
        raise wrong_offset(committed)
    return offset


def wrong_offset(committed: SourceOffset) -> ConnectorError:
    return ConnectorError(
        f"The committed source offset {dict(committed)} does not belong to this data source. Stop the connector and "
        "alter or reset its offsets."
    )


def _text_of(row: object, schema: Schema) -> str:
    """Return a row that cannot be read as text: as JSON if it is a row of the schema's width."""
    if isinstance(row, list | tuple) and len(row) == len(schema.fields):
        return row_text(schema.names, row)
    return str(row)


def _values_of(rows: Iterable[Any]) -> Iterable[object]:
    """Return rows unchanged, and the rows of Arrow's batches as tuples."""
    for row in rows:
        if hasattr(row, "to_pylist") and hasattr(row, "columns"):
            yield from zip(*(column.to_pylist() for column in row.columns), strict=True)
        else:
            yield row
