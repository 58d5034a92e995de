"""Reads the files of one share, one after another, each from its committed offset."""

import codecs
import logging
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ringfence.connectors.api import (
    ConnectorError,
    OffsetRecord,
    RecordBatch,
    RetriableError,
    SchemaType,
    SourceRecord,
    SourceTask,
    StructBatch,
    UnreadableRecord,
    ValueBatch,
)
from ringfence.connectors.builtin.files import settings as names
from ringfence.connectors.builtin.files.connector import CONFIG_DEF
from ringfence.connectors.builtin.files.formats import Columns, Rows
from ringfence.connectors.builtin.files.places import FileChanged, FileInfo, open_place
from ringfence.connectors.builtin.files.reading import FORMATS, Backlog, FileOffset, FileReading, Marks, Share, parse

logger = logging.getLogger(__name__)

IDLE_SECONDS = 0.5


class FilesSourceTask(SourceTask):
    """Delivers each content of a file once: its source offset contains its ETag and the position."""

    version: ClassVar[str | None] = "1.0.0"
    _reading: FileReading | None = None  # so that stop() can follow a failed start

    def start(self, config: Mapping[str, str]) -> None:
        settings = CONFIG_DEF.parse(config)
        index, _, count = config[names.SHARE].partition("/")
        share = Share(int(index), int(count))
        self._settings = settings
        self._format = FORMATS[settings.string(names.FORMAT)]
        self._topic = settings.string(names.TOPIC)
        self._batch_size = settings.integer(names.BATCH_SIZE)
        self._interval = settings.integer(names.POLL_INTERVAL) / 1000
        self._on_change = settings.string(names.ON_CHANGE)
        self._after = settings.string(names.AFTER)
        self._target = str(settings.get(names.MOVE_TO) or "").strip()
        self._headers = settings.boolean(names.FILE_HEADERS)
        self._raw = not self._headers and not _must_decode(settings.string(names.ENCODING), config)
        self._place = open_place(settings.string(names.URL), settings)
        self._backlog = Backlog(
            share,
            settings.string(names.PATTERN),
            settings.string(names.ORDER),
            settings.integer(names.SETTLE) / 1000,
        )
        lookback = settings.integer(names.LOOKBACK) if self._after == names.KEEP else 0
        self._marks = Marks(lookback, self._read_marks(share)) if lookback else None
        self._offsets: dict[str, FileOffset | None] = {}
        """By name, of files that were listed: how far they were read; None: not at all."""
        self._waiting: list[FileInfo] = []
        self._listed_at = float("-inf")
        self._ended: list[FileInfo] = []
        """Files whose last record was returned by `poll`."""
        self._finished: list[FileInfo] = []
        """Files whose last record is committed."""
        self._obsolete: list[OffsetRecord] = []
        """Tombstones for offsets that are not needed any more."""

    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        try:
            if self._reading is None:
                self._open_next()
            if self._obsolete:
                return self._take_obsolete()
            if self._reading is not None:
                return self._read(self._reading)
            self.context.wait(min(self._interval, IDLE_SECONDS))
            return None
        except OSError as error:
            self._close()
            self._listed_at = float("-inf")
            raise RetriableError(f"{self._place.address} cannot be read: {error}.") from error

    def commit(self) -> None:
        """All returned records are committed: files that were read to their ends may be deleted or moved."""
        self._finished += self._ended
        self._ended.clear()
        self._clear_finished()

    def stop(self) -> None:
        self._close()
        if self._place is not None:
            self._place.close()

    def _clear_finished(self) -> None:
        """Delete or move finished files. A failure is tried again with the next listing."""
        finished, self._finished = self._finished, []
        if self._after == names.KEEP:
            return
        for file in finished:
            try:
                if self._after == names.DELETE:
                    self._place.delete(file)
                else:
                    self._place.move(file, self._target)
            except OSError as error:
                logger.warning("File %s cannot be deleted or moved now: %s", self._address(file.name), error)
                self._finished.append(file)
            else:
                self._forget(file.name)

    def _forget(self, name: str) -> None:
        self._offsets.pop(name, None)
        self._obsolete.append(OffsetRecord(self._partition(name), None))

    def _take_obsolete(self) -> list[SourceRecord]:
        records, self._obsolete = self._obsolete, []
        self._end_transaction()
        return [*records]

    def _open_next(self) -> None:
        """Open the next file that is ready, if there is one."""
        while self._waiting or self._list():
            file = self._waiting.pop(0)
            committed = self._position_in(file)
            if committed is not None and committed.done:
                self._backlog.close(file)
                if committed == self._offsets[file.name]:
                    self._finished.append(file)  # a crash may have prevented its deletion or move
                continue
            try:
                self._reading = FileReading(self._place, file, self._format, self._settings, committed)
            except FileChanged:
                continue  # not read yet: the next listing shows what it is now
            logger.info("Reading %s from %s %d on", self._address(file.name), self._format.unit, self._reading.position)
            return

    def _list(self) -> bool:
        """List the files, unless that was just done. Returns whether there are any to read."""
        now = time.monotonic()
        if now - self._listed_at < self._interval:
            return False
        self._listed_at = now
        self._clear_finished()
        ready = self._backlog.update(self._place.list(), now)
        if self._marks is not None:
            self._advance(self._marks)
            ready = [file for file in ready if not self._marks.covers(file.name)]
        new = [file.name for file in ready if file.name not in self._offsets]
        offsets = self.context.offset_reader.offsets([self._partition(name) for name in new])
        for name, offset in zip(new, offsets, strict=True):
            self._offsets[name] = parse(offset) if offset else None
        self._waiting = ready
        return bool(ready)

    def _position_in(self, file: FileInfo) -> FileOffset | None:
        """Return where to continue in this content, None for its beginning. If it is `done`, do not read it."""
        former = self._offsets.get(file.name)
        if former is None or former.etag == file.etag:
            return former
        if self._on_change == names.READ or (former.done and self._after != names.KEEP):
            return None
        if self._on_change == names.IGNORE:
            logger.warning("File %s has changed since it was read, and is skipped", self._address(file.name))
            return former._replace(etag=file.etag, done=True)
        raise self._change_error(file.name, former)

    def _read(self, reading: FileReading) -> Sequence[SourceRecord] | RecordBatch:
        try:
            lines = reading.read_lines(self._batch_size) if self.context.raw_batches and self._raw else None
            columns = reading.read_columns(self._batch_size) if lines is None and not self._headers else None
            rows = reading.read(self._batch_size) if lines is None and columns is None else None
        except FileChanged as error:
            return self._changed_while_read(reading, error)
        partition = self._partition(reading.file.name)
        offset = reading.offset
        self._offsets[reading.file.name] = offset
        if offset.done:
            self._close()
            self._backlog.close(reading.file)
            self._ended.append(reading.file)
            self._end_transaction()
        if lines:
            return RecordBatch(partition, offset.as_json(), self._topic, lines)
        if columns is not None:
            return self._structs(partition, offset, columns)
        if rows is not None and rows.positions:
            return self._records(partition, reading, rows)
        return [OffsetRecord(partition, offset.as_json())] if offset.done else []

    def _structs(self, partition: Mapping[str, object], offset: FileOffset, columns: Columns) -> StructBatch:
        etag, unit, first = offset.etag, offset.unit, columns.first
        return StructBatch(
            partition,
            offset.as_json(),
            self._topic,
            columns.schema,
            columns.values,
            lambda number: {names.ETAG: etag, unit: first + number},
        )

    def _records(self, partition: Mapping[str, object], reading: FileReading, rows: Rows) -> Sequence[SourceRecord]:
        topic, schema, address, with_headers = self._topic, rows.schema, self._address(reading.file.name), self._headers
        etag, unit, positions = reading.file.etag, reading.unit, rows.positions
        if not rows.unreadable and (schema is None or schema.type is not SchemaType.STRUCT):
            return ValueBatch(
                partition,
                reading.offset.as_json(),
                topic,
                schema,
                rows.values,
                lambda number: {names.ETAG: etag, unit: positions[number]},
                headers=[(("file", address), ("position", each)) for each in positions] if with_headers else None,
            )
        records: list[SourceRecord] = [
            # Positional arguments: keywords cost a fifth more.
            SourceRecord(
                partition,
                {names.ETAG: etag, unit: position},
                topic,
                value,
                None,
                (("file", address), ("position", position)) if with_headers else (),
                None,
                None,
                None,
                schema,
            )
            for value, position in zip(rows.values, positions, strict=True)
        ]
        for index, unreadable in rows.unreadable.items():
            offset = records[index].source_offset
            records[index] = UnreadableRecord(partition, offset, topic, unreadable.error, unreadable.text)
        records[-1].source_offset = reading.offset.as_json()
        return records

    def _changed_while_read(self, reading: FileReading, error: FileChanged) -> list[SourceRecord]:
        """Handle a change during a read. The records read last were not returned, since they may be of
        another content.
        """
        name = reading.file.name
        self._close()
        former = self._offsets.get(name) or FileOffset(reading.file.etag, reading.unit, 0, False)
        if self._on_change == names.FAIL:
            raise self._change_error(name, former) from error
        if self._on_change == names.READ:
            return []  # the next listing has its current content
        logger.warning("File %s has changed while it was read: the rest is skipped", self._address(name))
        left = former._replace(done=True)
        self._offsets[name] = left
        self._end_transaction()
        return [OffsetRecord(self._partition(name), left.as_json())]

    def _change_error(self, name: str, former: FileOffset) -> ConnectorError:
        return ConnectorError(
            f"File {self._address(name)} has changed or was deleted since it was "
            f"read{'' if former.done else f' up to {former.unit} {former.position}'}: its positions would mean "
            f"other records. Put the former file back; or set {names.ON_CHANGE}={names.READ} to read changed files "
            f"from their beginning, or {names.ON_CHANGE}={names.IGNORE} to skip them, and restart the task."
        )

    def _advance(self, marks: Marks) -> None:
        """Delete the offsets that the marks pass. The mark is written before the tombstones of the offsets that it
        replaces.
        """
        for bucket, passed in marks.advance(
            self._backlog.names(closed=True), self._backlog.names(closed=False)
        ).items():
            self._obsolete.append(OffsetRecord(self._bucket_partition(bucket), {names.THROUGH: passed[-1]}))
            for name in passed:
                self._forget(name)

    def _read_marks(self, share: Share) -> dict[int, str]:
        offsets = self.context.offset_reader.offsets([self._bucket_partition(bucket) for bucket in share.buckets])
        return {
            bucket: str(offset[names.THROUGH])
            for bucket, offset in zip(share.buckets, offsets, strict=True)
            if offset and names.THROUGH in offset
        }

    def _end_transaction(self) -> None:
        """With transaction.boundary=connector, end the transaction after the next records, so that a file is one."""
        if self.context.transaction_context is not None:
            self.context.transaction_context.commit_transaction()

    def _close(self) -> None:
        """Close the file. Records that were not returned are read again."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _address(self, name: str) -> str:
        return f"{self._place.address}/{name}"

    def _partition(self, name: str) -> dict[str, object]:
        return {names.URL_KEY: self._address(name)}

    def _bucket_partition(self, bucket: int) -> dict[str, object]:
        return {names.URL_KEY: self._place.address, names.BUCKET_KEY: bucket}


def _must_decode(encoding: str, config: Mapping[str, str]) -> bool:
    """Return whether a line's bytes are not those that StringConverter would write."""
    as_text = config.get("value.converter", "").endswith("StringConverter")
    return as_text and not names.is_wide(encoding) and codecs.lookup(encoding).name not in ("utf-8", "ascii")
