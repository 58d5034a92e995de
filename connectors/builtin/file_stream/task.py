"""Makes records of a file's lines, from the committed position on."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ringfence.connectors.api import ConnectorError, RecordBatch, SourceOffset, SourceRecord, SourceTask
from ringfence.connectors.api.schemas import STRING
from ringfence.connectors.builtin.file_stream.followed_file import FollowedFile
from ringfence.connectors.builtin.file_stream.line_splitting import LineBuffer
from ringfence.connectors.builtin.file_stream.settings import BATCH_SIZE, CONFIG_DEF, FILE, FILENAME, POSITION, TOPIC

logger = logging.getLogger(__name__)

IDLE_SECONDS = 0.1


class FileStreamSourceTask(SourceTask):
    """Delivers whole lines only. The source offset is the byte after the line, so a restart resumes exactly there.

    The file may only grow. A file that was replaced, truncated or deleted fails the task: its positions would mean
    other lines, and reading on would lose or repeat some.
    """

    version: ClassVar[str | None] = "1.0.0"
    _file: FollowedFile | None = None  # so that stop() can follow a failed start

    def start(self, config: Mapping[str, str]) -> None:
        settings = CONFIG_DEF.parse(config)
        self._path = settings.string(FILE)
        self._topic = settings.string(TOPIC)
        self._batch_size = settings.integer(BATCH_SIZE)
        self._partition = {FILENAME: self._path}
        position = read_committed_position(self.context.offset_reader.offset(self._partition))
        self._file = FollowedFile(self._path, position)
        self._lines = LineBuffer(position)
        logger.info("Reading %s from byte %d of %d on", self._path, position, self._file.size)

    def poll(self) -> Sequence[SourceRecord] | RecordBatch | None:
        lines = self._lines
        assert self._file is not None
        while len(lines) < self._batch_size and (chunk := self._file.read()):
            lines.feed(chunk)
        if not len(lines):
            self._file.check_still_the_same(lines.position)
            self.context.wait(IDLE_SECONDS)
            return None
        if self.context.raw_batches:
            values = lines.take(self._batch_size)
            return RecordBatch(self._partition, {POSITION: lines.position}, self._topic, values)
        return self._records()

    def stop(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _records(self) -> list[SourceRecord]:
        partition, topic, now = self._partition, self._topic, int(time.time() * 1000)
        lines, positions = self._lines.take_with_positions(self._batch_size)
        # Positional arguments: keywords cost a fifth more, and this is most of a line's time.
        return [
            SourceRecord(
                partition,
                {POSITION: position},
                topic,
                line.decode("utf-8", "surrogateescape"),
                None,
                (),
                now,
                None,
                None,
                STRING,
            )
            for line, position in zip(lines, positions, strict=True)
        ]


def read_committed_position(offset: SourceOffset | None) -> int:
    """Return the byte to start at. Raises `ConnectorError` for an offset that is not FileStreamSource's."""
    if offset is None:
        return 0
    position = offset.get(POSITION)
    if not isinstance(position, int) or isinstance(position, bool) or position < 0:
        raise ConnectorError(
            f"The committed source offset {dict(offset)} has no integer of bytes under {POSITION!r}. "
            "Stop the connector and alter or reset its offsets."
        )
    return position
