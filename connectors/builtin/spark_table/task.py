"""Reads the parts of one share, one after another, each from its committed row."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from ringfence.connectors.api import (
    ConnectorError,
    OffsetReader,
    OffsetRecord,
    RecordBatch,
    RetriableError,
    SourceRecord,
    SourceTask,
    StructBatch,
)
from ringfence.connectors.builtin.spark_table import settings as names
from ringfence.connectors.builtin.spark_table.connector import CONFIG_DEF, open_table
from ringfence.connectors.builtin.spark_table.plan import Head, Part, Planning, Table, own_parts, parse_head

logger = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 1.0
_END_SECONDS: Final = 5.0
"""Seconds between two checks whether all tasks have read their parts."""


class SparkTableSourceTask(SourceTask):
    """The first task makes the plan; every task waits until it is committed, then reads its own parts. When all parts
    are read, the first task ends all tasks.
    """

    version: ClassVar[str | None] = "1.0.0"
    _table: Table[Any] | None = None  # so that stop() can follow a failed start

    def start(self, config: Mapping[str, str]) -> None:
        settings = CONFIG_DEF.parse(config)
        index, _, count = config[names.SHARE].partition("/")
        self._index, self._count = int(index), int(count)
        self._preview = config.get(names.PREVIEW) == "true"
        self._topic = settings.string(names.TOPIC)
        self._batch_size = settings.integer(names.BATCH_SIZE)
        self._table = open_table(settings)
        self._planning: Planning[Any] | None = None
        self._planned: list[tuple[int, Any]] = []
        """Of the plan in the making: this task's own parts."""
        self._parts: list[tuple[int, Any]] | None = None
        """Own parts that are not read to their ends; None before there is a plan."""
        self._head: Head | None = None
        self._look = 0.0
        """When the first task checks again whether all parts are read."""
        self._find_plan(self.context.offset_reader)

    @property
    def _of(self) -> Table[Any]:
        assert self._table is not None, "started"
        return self._table

    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        try:
            if self._parts is None:
                return self._plan() if self._index == 0 else self._wait_for_plan()
            if not self._parts:
                self.context.wait(_IDLE_SECONDS)
                self._end_tasks()
                return None
            return self._read(*self._parts[0])
        except OSError as error:
            self._of.release()
            self._planning = None
            raise RetriableError(f"{self._of.address} cannot be read: {error}.") from error

    def stop(self) -> None:
        if self._table is not None:
            self._table.close()

    def _plan(self) -> Sequence[SourceRecord]:
        """Return the parts first and the plan's own offset last: a reader that sees the plan sees all parts."""
        if self._planning is None:
            self._planning, self._planned = Planning(self._of, self._preview), []
        try:
            parts = self._planning.take()
        except RetriableError:
            self._planning = None  # with the table's state at that time
            raise
        self._planned += [each for each in parts if each[0] % self._count == self._index]
        records = [OffsetRecord(self._partition(number), part.as_json()) for number, part in parts]
        self._head = self._planning.head
        if self._head is not None:
            records.append(OffsetRecord({**self._of.partition}, self._head.as_json()))
            self._parts, self._planned = self._planned, []
            logger.info("The plan for %s has %d parts", self._of.address, self._head.parts)
        return [*records]

    def _wait_for_plan(self) -> Sequence[SourceRecord]:
        self.context.wait(_IDLE_SECONDS)
        self._find_plan(self.context.read_offsets())
        return []

    def _find_plan(self, offsets: OffsetReader) -> None:
        head = offsets.offset({**self._of.partition})
        if head is None:
            return
        self._head = parse_head(head)
        numbers = own_parts(self._head, self._index, self._count)
        committed = offsets.offsets([self._partition(number) for number in numbers])
        self._parts = []
        for number, offset in zip(numbers, committed, strict=True):
            part = self._check(self._head, number, self._of.parse_part(offset) if offset else None)
            if not part.done:
                self._parts.append((number, part))
        logger.info("%d of %d own parts are still to be read", len(self._parts), len(numbers))

    def _end_tasks(self) -> None:
        """End every task of the connector, once all parts are read to their ends and committed."""
        if self._index or self._preview or self._head is None or time.monotonic() < self._look:
            return
        self._look = time.monotonic() + _END_SECONDS
        numbers = own_parts(self._head, 0, 1)
        committed = self.context.read_offsets().offsets([self._partition(number) for number in numbers])
        if all(offset and self._of.parse_part(offset).done for offset in committed):
            logger.info("All parts of %s are read", self._of.address)
            self.context.request_task_reconfiguration()

    def _check(self, head: Head, number: int, part: Part | None) -> Part:
        if part is None or part.plan != head.plan:
            raise ConnectorError(
                f"Part {number} of the plan for {self._of.address} has no source offset any more, or another plan's, "
                "so its position is unknown. Stop the connector, and restore the offset that was altered; or reset "
                "all offsets to read the whole table again."
            )
        return part

    def _read(self, number: int, part: Any) -> Sequence[SourceRecord] | RecordBatch:
        assert self._parts is not None
        batch = self._of.read(part, self._batch_size)
        self._parts[0] = (number, batch.after)
        if batch.after.done:
            self._of.release()
            self._parts.pop(0)
        if not batch.columns[0]:
            return [OffsetRecord(self._partition(number), batch.after.as_json())]
        partition, offset = self._partition(number), batch.after.as_json()

        def offset_of(place: int) -> dict[str, object]:
            return dict(batch.after_row(place).as_json())

        if batch.reader is not None:
            return batch.reader.records(partition, offset, batch.columns, offset_of)
        return StructBatch(partition, offset, self._topic, batch.schema, batch.columns, offset_of)

    def _partition(self, number: int) -> dict[str, object]:
        return {**self._of.partition, names.PART_KEY: number}
