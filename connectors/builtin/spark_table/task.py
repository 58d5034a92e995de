"""Reads the parts of one share, one after another, each from its committed row on."""

import logging
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ringfence.connectors.api import (
    ConnectorError,
    OffsetReader,
    OffsetRecord,
    RecordBatch,
    RetriableError,
    Schema,
    SourceRecord,
    SourceTask,
    StructBatch,
)
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.builtin.files.formats.parquet import ParquetReader
from ringfence.connectors.builtin.files.offsets import FileOffset
from ringfence.connectors.builtin.files.places import FileChanged, FileInfo, open_place
from ringfence.connectors.builtin.files.reading import FileReading
from ringfence.connectors.builtin.files.settings import URL
from ringfence.connectors.builtin.spark_table import settings as names
from ringfence.connectors.builtin.spark_table.connector import CONFIG_DEF
from ringfence.connectors.builtin.spark_table.plan import Head, Part, folder_values, own_parts, parse_head, parse_part
from ringfence.connectors.builtin.spark_table.planning import Planning

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 1.0


class SparkTableSourceTask(SourceTask):
    """The first task makes the plan; every task waits until it is committed, then reads its own parts."""

    version: ClassVar[str | None] = "1.0.0"
    _reading: FileReading | None = None  # so that stop() can follow a failed start

    def start(self, config: Mapping[str, str]) -> None:
        parsed = CONFIG_DEF.parse(config)
        self._settings = parsed
        index, _, count = config[names.SHARE].partition("/")
        self._index, self._count = int(index), int(count)
        self._preview = config.get(names.PREVIEW) == "true"
        self._topic = parsed.string(names.TOPIC)
        self._part_rows = parsed.integer(names.PART_ROWS)
        self._batch_size = parsed.integer(names.BATCH_SIZE)
        self._place = open_place(parsed.string(URL), parsed)
        self._planning: Planning | None = None
        self._planned: list[tuple[int, Part]] = []
        """Of the plan in the making: the parts that are this task's own."""
        self._parts: list[tuple[int, Part]] | None = None
        """Own parts that are not read to their ends; None before there is a plan."""
        self._find_plan(self.context.offset_reader)

    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        try:
            if self._parts is None:
                return self._plan() if self._index == 0 else self._wait_for_plan()
            if not self._parts:
                self.context.wait(_IDLE_SECONDS)
                return None
            return self._read(*self._parts[0])
        except OSError as error:
            self._close()
            self._planning = None
            raise RetriableError(f"{self._place.address} cannot be read: {error}.") from error

    def stop(self) -> None:
        self._close()
        if hasattr(self, "_place"):
            self._place.close()

    def _plan(self) -> Sequence[SourceRecord]:
        """Parts first and the plan's own offset last: whoever sees that one sees all parts."""
        if self._planning is None:
            self._planning, self._planned = Planning(self._place, self._part_rows, self._preview), []
        try:
            found = self._planning.take()
        except RetriableError:
            self._planning = None  # with the files as they are then
            raise
        self._planned += [each for each in found if each[0] % self._count == self._index]
        records = [OffsetRecord(self._partition(number), part.as_json()) for number, part in found]
        head = self._planning.head
        if head is not None:
            records.append(OffsetRecord({names.URL_KEY: self._place.address}, head.as_json()))
            self._parts, self._planned = self._planned, []
            logger.info("The plan for %s has %d parts", self._place.address, head.parts)
        return [*records]

    def _wait_for_plan(self) -> Sequence[SourceRecord]:
        self.context.wait(_IDLE_SECONDS)
        self._find_plan(self.context.read_offsets())
        return []

    def _find_plan(self, offsets: OffsetReader) -> None:
        found = offsets.offset({names.URL_KEY: self._place.address})
        if found is None:
            return
        head = parse_head(found)
        numbers = own_parts(head, self._index, self._count)
        committed = offsets.offsets([self._partition(number) for number in numbers])
        self._parts = []
        for number, offset in zip(numbers, committed, strict=True):
            part = self._check(head, number, parse_part(offset) if offset else None)
            if not part.done:
                self._parts.append((number, part))
        logger.info("%d of %d own parts are to be read", len(self._parts), len(numbers))

    def _check(self, head: Head, number: int, part: Part | None) -> Part:
        if part is None or part.plan != head.plan:
            raise ConnectorError(
                f"Part {number} of the plan for {self._place.address} has no source offset any more, or one of "
                "another plan, so it is not known how far it was read. Stop the connector, and put back the offset "
                "that was altered; or reset all offsets to read the whole table again."
            )
        return part

    def _read(self, number: int, part: Part) -> Sequence[SourceRecord] | RecordBatch:
        assert self._parts is not None
        try:
            if self._reading is None:
                at = FileOffset(part.etag, ParquetReader.unit, part.row, done=False)
                file = FileInfo(part.file, part.etag, 0.0)
                self._reading = FileReading(self._place, file, ParquetReader, self._settings, at)
            found = self._reading.read_columns(min(self._batch_size, part.end - part.row))
        except FileChanged as error:
            raise self._change_error(part) from error
        if found is None:
            raise self._change_error(part)
        after = part._replace(row=self._reading.position)
        self._parts[0] = (number, after)
        if after.done:
            self._close()
            self._parts.pop(0)
        schema, columns = _add_folders(part.file, found.schema, found.values)
        first = part.row + 1
        return StructBatch(
            self._partition(number),
            after.as_json(),
            self._topic,
            schema,
            columns,
            lambda place: part._replace(row=first + place).as_json(),
        )

    def _change_error(self, part: Part) -> ConnectorError:
        return ConnectorError(
            f"File {part.file} of {self._place.address} was changed or removed after the plan was made, and rows "
            f"{part.row} to {part.end} of it are not read: the table is not the one that was planned. Put the former "
            "file back, with its time, and restart the task; or stop the connector, reset its offsets and resume it: "
            "the whole table, as it is then, is written again."
        )

    def _close(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _partition(self, number: int) -> dict[str, object]:
        return {names.URL_KEY: self._place.address, names.PART_KEY: number}


def _add_folders(
    file: str, schema: Schema, columns: Sequence[Sequence[object]]
) -> tuple[Schema, Sequence[Sequence[object]]]:
    """The columns that the names of folders tell follow the file's own."""
    known = {field.name: field.schema for field in schema.fields}
    told = {name: value for name, value in folder_values(file).items() if name not in known}
    if not told:
        return schema, columns
    text = connect.STRING.but(optional=True)
    rows = len(columns[0])
    return (
        connect.struct({**known, **dict.fromkeys(told, text)}),
        [*columns, *([value] * rows for value in told.values())],
    )
