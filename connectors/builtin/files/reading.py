"""Reads files: which file a task reads next (pure rules, without file access), and one file from its source offset:
which content, how far, and whether it was read to its end.
"""

import io
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ringfence.connectors.api import ConnectorError, ParsedConfig, SourceOffset
from ringfence.connectors.builtin.files import settings
from ringfence.connectors.builtin.files.compression import BROKEN, Content, contents, count_bytes
from ringfence.connectors.builtin.files.formats import Columns, FormatError, FormatReader, Rows
from ringfence.connectors.builtin.files.formats.avro import AvroReader
from ringfence.connectors.builtin.files.formats.parquet import ParquetReader
from ringfence.connectors.builtin.files.formats.text import CsvReader, JsonLinesReader, TextReader
from ringfence.connectors.builtin.files.places import FileInfo, Place
from ringfence.connectors.builtin.files.settings import DONE, ENCODING, ETAG, MODIFIED, is_wide
from ringfence.connectors.sdk.linear_patterns import LinearPattern

FORMATS: Final[Mapping[str, type[FormatReader]]] = dict(
    zip(settings.FORMATS, (TextReader, JsonLinesReader, CsvReader, ParquetReader, AvroReader), strict=True)
)
BUCKETS: Final = 256
"""Files are distributed to tasks by bucket, so that the state of a bucket is valid for any number of tasks."""


@dataclass(frozen=True, slots=True)
class Share:
    """The buckets of one task."""

    index: int
    count: int

    def owns(self, name: str) -> bool:
        return bucket_of(name) % self.count == self.index

    @property
    def buckets(self) -> range:
        return range(self.index, BUCKETS, self.count)


def bucket_of(name: str) -> int:
    """Return a file's bucket. It must never change: marks are stored by bucket."""
    return zlib.crc32(name.encode("utf-8", "surrogateescape")) % BUCKETS


class Backlog:
    """The files of the last listing that are still to be read."""

    def __init__(self, share: Share, pattern: str, order: str, settle_seconds: float) -> None:
        self._share = share
        self._matches = LinearPattern(pattern).fullmatch
        self._order: Callable[[FileInfo], tuple[object, ...]] = _by_time if order == MODIFIED else _by_name
        self._settle = settle_seconds
        self._since: dict[str, tuple[str, float]] = {}
        """By name: the ETag that was seen last, and since when."""
        self._closed: dict[str, str] = {}
        """By name: the ETag of the content that needs no more reading."""
        self._files: list[FileInfo] = []

    def update(self, files: Iterable[FileInfo], now: float) -> list[FileInfo]:
        """Process a listing. Returns the files that are ready, in reading order.

        now: seconds of any monotonic clock.
        """
        own_files = [file for file in files if self._share.owns(file.name) and self._matches(file.name)]
        since = {}
        for file in own_files:
            etag, since_s = self._since.get(file.name, (None, now))
            since[file.name] = (file.etag, since_s if etag == file.etag else now)
        self._since = since
        self._closed = {name: etag for name, etag in self._closed.items() if name in since}
        self._files = own_files
        return sorted(filter(self._ready_at(now), own_files), key=self._order)

    def close(self, file: FileInfo) -> None:
        """Record that this content needs no more reading."""
        self._closed[file.name] = file.etag

    def names(self, *, closed: bool) -> list[str]:
        """Return the files of the last listing that need no more reading (closed), or those that do."""
        return [file.name for file in self._files if (self._closed.get(file.name) == file.etag) is closed]

    def _ready_at(self, now: float) -> Callable[[FileInfo], bool]:
        def ready(file: FileInfo) -> bool:
            return self._closed.get(file.name) != file.etag and now - self._since[file.name][1] >= self._settle

        return ready


class Marks:
    """For each bucket, the name up to which all files have been read, so that older files can be forgotten.

    A mark stays `lookback` read files behind the last one, and before every file that is still to be read.
    """

    def __init__(self, lookback: int, through: Mapping[int, str]) -> None:
        self._lookback = lookback
        self._through = dict(through)

    def covers(self, name: str) -> bool:
        """Return whether the file counts as read, even if nothing else is known about it."""
        through = self._through.get(bucket_of(name))
        return through is not None and name <= through

    def advance(self, read: Iterable[str], waiting: Iterable[str]) -> dict[int, list[str]]:
        """Move the marks, given names from the listing. Returns, by bucket, the names that its mark has passed now."""
        first_waiting: dict[int, str] = {}
        for name in (name for name in waiting if not self.covers(name)):
            bucket = bucket_of(name)
            first_waiting[bucket] = min(name, first_waiting.get(bucket, name))
        by_bucket: dict[int, list[str]] = {}
        for name in sorted(read):
            if not self.covers(name):
                by_bucket.setdefault(bucket_of(name), []).append(name)
        passed = {}
        for bucket, names in by_bucket.items():
            bound = first_waiting.get(bucket)
            before = [name for name in names[: max(0, len(names) - self._lookback)] if bound is None or name < bound]
            if before:
                passed[bucket] = before
                self._through[bucket] = before[-1]
        return passed


def _by_name(file: FileInfo) -> tuple[object, ...]:
    return (file.name,)


def _by_time(file: FileInfo) -> tuple[object, ...]:
    return (file.modified, file.name)


UNITS: Final = ("byte", "row")


class FileOffset(NamedTuple):
    """The position in one file. unit: what the position counts."""

    etag: str
    unit: str
    position: int
    done: bool

    def as_json(self) -> dict[str, object]:
        """Return the form in the offsets topic: `{"etag": "…", "byte": 4096}`, with `"done": true` at the end."""
        offset: dict[str, object] = {ETAG: self.etag, self.unit: self.position}
        if self.done:
            offset[DONE] = True
        return offset


def parse(offset: SourceOffset) -> FileOffset:
    """Parse an offset. Raises `ConnectorError` if it is not FilesSource's."""
    if not isinstance(offset, Mapping):
        raise ConnectorError(f"The offset of a file is an object, and {str(offset)[:100]} is not")
    etag, done = offset.get(ETAG), offset.get(DONE, False)
    units = [unit for unit in UNITS if unit in offset]
    position = offset.get(units[0]) if units else None
    if (
        isinstance(etag, str)
        and isinstance(done, bool)
        and len(units) == 1
        and isinstance(position, int)
        and not isinstance(position, bool)
        and position >= 0
    ):
        return FileOffset(etag, units[0], position, done)
    raise ConnectorError(
        f"The offset {dict(offset)} must have a string under {ETAG!r} and one non-negative number under 'byte' or "
        f"'row', and may have true under {DONE!r}. Stop the connector and alter or reset its offsets."
    )


_BROKEN: Final = (FormatError, *BROKEN)


class FileReading:
    """Reads one file. Methods raise `FileChanged` if the content is not the listed one, OSError if it cannot be read
    now.
    """

    def __init__(
        self,
        place: Place,
        file: FileInfo,
        format: type[FormatReader],
        settings: ParsedConfig,
        committed: FileOffset | None,
    ) -> None:
        """committed: where to continue; None: at the beginning. Raises `ConnectorError` for a file of
        another format.
        """
        if committed is not None and committed.position and committed.unit != format.unit:
            raise ConnectorError(
                f"File {file.name} was read up to {committed.unit} {committed.position}, but positions of this format "
                f"count {format.unit}s. Set the former format again, or stop the connector and reset its offsets."
            )
        self.file = file
        self.position = committed.position if committed else 0
        self.unit = format.unit
        self._format = format
        self._settings = settings
        self._opened = place.open(file)
        try:
            with self._errors():
                self._waiting: deque[Content] = deque(self._contents())
                self._start = 0
                """Of an archive's member that is read: the bytes of all members before it."""
                self._reader = self._open_first()
        except BaseException:
            self.close()
            raise

    @property
    def at_end(self) -> bool:
        return self._reader.at_end and not self._waiting

    @property
    def offset(self) -> FileOffset:
        """The offset after the last record that was read."""
        return FileOffset(self.file.etag, self.unit, self.position, self.at_end)

    def read(self, limit: int) -> Rows:
        """Return the next records; none only at the end of the file."""
        with self._errors():
            self._open_next()
            rows = self._reader.read(limit)
        self._opened.check()
        for unreadable in rows.unreadable.values():
            unreadable.error.at(where=f"File {self.file.name}")
        if self._start:
            rows = rows._replace(positions=[self._start + position for position in rows.positions])
        if rows.positions:
            self.position = rows.positions[-1]
        return rows

    def read_columns(self, limit: int) -> Columns | None:
        """Return the next records by column; None at the end of the file, and if the format cannot, or not these."""
        with self._errors():
            columns = self._reader.read_columns(limit)
        if columns is None:
            return None
        self._opened.check()
        self.position = columns.first + len(columns.values[0]) - 1
        return columns

    def read_lines(self, limit: int) -> list[bytes] | None:
        """Return the next records as encoded bytes; None if the format cannot."""
        with self._errors():
            self._open_next()
            part = self._reader.read_lines(limit)
        if part is None:
            return None
        self._opened.check()
        lines, position = part
        self.position = self._start + position
        return lines

    def _contents(self) -> Iterable[Content]:
        stream = self._opened.stream
        if not self._format.compressible:
            return [Content(None, lambda: stream)]
        encoding = self._settings.string(ENCODING)
        return contents(self.file.name, stream, encoding if is_wide(encoding) else None)

    def _open_first(self) -> FormatReader:
        """Open the part of the file that contains the position."""
        while len(self._waiting) > 1:
            first = self._waiting.popleft()
            size = count_bytes(first.open()) if first.size is None else first.size
            if self.position < self._start + size:
                self._waiting.appendleft(first)
                break
            self._start += size
        if not self._waiting:
            return self._format(io.BytesIO(), 0, self._settings)
        self._stream = self._waiting.popleft().open()
        return self._format(self._stream, self.position - self._start, self._settings)

    def _open_next(self) -> None:
        """Open the next member of the archive with a record, if the former one has no more."""
        while self._reader.at_end and self._waiting:
            self._start += self._stream.tell()
            self._stream = self._waiting.popleft().open()
            self._reader = self._format(self._stream, 0, self._settings)
            self.position = self._start

    def close(self) -> None:
        self._opened.close()

    def _errors(self) -> "_Errors":
        return _Errors(self)


class _Errors:
    """Adds the file's name, position and a remedy to format errors, unless the content has changed."""

    def __init__(self, reading: FileReading) -> None:
        self._reading = reading

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _BROKEN):
            self._reading._opened.check()
            reading = self._reading
            raise ConnectorError(
                f"File {reading.file.name} cannot be read on from {reading.unit} {reading.position}: {error}. All "
                "records before were delivered. Repair the file, or exclude it with input.file.pattern; "
                "on.change=read reads a repaired file from its beginning."
            ) from error
