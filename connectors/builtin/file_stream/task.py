"""Makes records of a file's lines, from the committed position on, while other programs append to it.

Settings, and names in offsets, are the same as Kafka's.
"""

import logging
import os
import stat
import time
from collections.abc import Mapping
from typing import ClassVar, Final

from ringfence.connectors.api import (
    ConfigDef,
    ConnectorError,
    EncodedStrings,
    Importance,
    RecordBatch,
    RetriableError,
    SourceOffset,
    SourceTask,
    ValueBatch,
    Width,
)
from ringfence.connectors.api.schemas import STRING
from ringfence.connectors.builtin.file_stream.line_splitting import LineBuffer
from ringfence.connectors.sdk.files import open_allowed

logger = logging.getLogger(__name__)


FILENAME: Final = "filename"
"""The key of the source partition."""
POSITION: Final = "position"
"""The key of the source offset: the byte after the last line that was delivered."""

CONFIG_DEF: Final = ConfigDef()
_settings: Final = CONFIG_DEF.group()

FILE: Final = _settings.text(
    "file", "The file to read. Its path must be the same on every machine that runs tasks.", display_name="File"
)
TOPIC: Final = _settings.text(
    "topic", "The topic to write to: one record per line.", width=Width.MEDIUM, display_name="Topic"
)
BATCH_SIZE: Final = _settings.integer(
    "batch.size",
    "The maximum number of lines in a batch; with transaction.boundary=poll, a batch is a transaction.",
    2000,
    1,
    importance=Importance.LOW,
    display_name="Batch size",
)


CHUNK_BYTES = 1 << 20


class FollowedFile:
    """An open file, read from a position on. Raises `ConnectorError` if it is shorter than that."""

    def __init__(self, path: str, position: int) -> None:
        self._path = path
        self._file = _open(path)
        self._read_to = position
        self.size = os.fstat(self._file).st_size
        """In bytes, when it was opened."""
        if self.size < position:
            self.close()
            raise _shorter(path, self.size, position)

    def read(self) -> bytes:
        """Return the next chunk; b"" at the end of the file. Raises `RetriableError`."""
        try:
            chunk = os.pread(self._file, CHUNK_BYTES, self._read_to)
        except OSError as error:
            raise RetriableError(f"File {self._path} cannot be read at byte {self._read_to}: {error}.") from error
        self._read_to += len(chunk)
        return chunk

    def check_still_the_same(self, delivered: int) -> None:
        """Compare what was read with the current file. Called only at the end of the file.

        delivered: the position after the last line that was delivered, for messages.
        """
        opened = os.fstat(self._file)
        if opened.st_size < self._read_to:
            raise _shorter(self._path, opened.st_size, self._read_to)
        try:
            current = os.stat(self._path)
        except OSError as error:
            raise ConnectorError(
                f"File {self._path} is gone ({error.strerror}). All lines up to byte {delivered} were "
                "delivered. Restore the file and restart the task, or delete the connector."
            ) from error
        if (current.st_dev, current.st_ino) != (opened.st_dev, opened.st_ino):
            raise ConnectorError(
                f"File {self._path} was replaced by another file. All lines of the old file up to byte "
                f"{delivered} were delivered. To read the new file from its beginning, stop the connector, "
                "reset its offsets and resume it."
            )

    def close(self) -> None:
        os.close(self._file)


def _open(path: str) -> int:
    try:
        file = open_allowed(path)  # non-blocking: opening a pipe must not hang
    except OSError as error:
        raise ConnectorError(unreadable(path, error)) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise ConnectorError(not_a_file(path))
    return file


def unreadable(path: str, error: OSError) -> str:
    """Return a message: why the file cannot be opened, and the remedy."""
    if isinstance(error, FileNotFoundError):
        return f"File {path} does not exist. Create it, or set the path of a file that every worker can read."
    return f"File {path} cannot be read ({error.strerror}). Give the worker's user the permission to read it."


def not_a_file(path: str) -> str:
    return f"{path} is not a regular file. Set the path of a regular file: only there do positions have a meaning."


def _shorter(path: str, size: int, position: int) -> ConnectorError:
    return ConnectorError(
        f"File {path} has {size} bytes, but was read up to byte {position} before: it was truncated or replaced. To "
        "read it from its beginning, stop the connector, reset its offsets and resume it."
    )


IDLE_SECONDS: Final = 0.1
MOST_IDLE_SECONDS: Final = 0.5
"""How long a file that does not grow is left alone: longer each time. A worker may have a thousand of them."""
_LONGER: Final = 1.2


class FileStreamSourceTask(SourceTask):
    """Delivers whole lines only. The source offset is the byte after the line, so a restart resumes exactly there.

    The file may only grow. A file that was replaced, truncated or deleted fails the task: its positions would mean
    other lines, and reading on would lose or repeat some.
    """

    version: ClassVar[str | None] = "1.0.0"
    shares_process = True
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
        self._idle_s = IDLE_SECONDS
        logger.info("Reading %s from byte %d of %d on", self._path, position, self._file.size)

    def poll(self) -> ValueBatch | RecordBatch | None:
        lines = self._lines
        assert self._file is not None
        while len(lines) < self._batch_size and (chunk := self._file.read()):
            lines.feed(chunk)
        if not len(lines):
            self._file.check_still_the_same(lines.position)
            self.context.wait(self._idle_s)
            self._idle_s = min(MOST_IDLE_SECONDS, self._idle_s * _LONGER)
            return None
        self._idle_s = IDLE_SECONDS
        if self.context.raw_batches:
            values = lines.take(self._batch_size)
            return RecordBatch(self._partition, {POSITION: lines.position}, self._topic, values)
        return self._strings()

    def stop(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _strings(self) -> ValueBatch:
        lines, positions = self._lines.take_with_positions(self._batch_size)
        return ValueBatch(
            self._partition,
            {POSITION: self._lines.position},
            self._topic,
            STRING,
            EncodedStrings(lines),
            lambda number: {POSITION: positions[number]},
            int(time.time() * 1000),
        )


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
