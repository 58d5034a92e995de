"""One file while it is read: its content at the place, opened, decompressed and parsed."""

import bz2
import gzip
import lzma
from collections.abc import Callable, Mapping
from typing import Any, Final

from ringfence.connectors.api import ConnectorError, ParsedConfig
from ringfence.connectors.builtin.files.formats import Columns, FormatError, FormatReader, Rows
from ringfence.connectors.builtin.files.offsets import FileOffset
from ringfence.connectors.builtin.files.places import FileInfo, Place

_DECOMPRESS: Final[Mapping[str, Callable[[Any], Any]]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BROKEN: Final = (FormatError, EOFError, gzip.BadGzipFile, lzma.LZMAError)


class FileReading:
    """Raises `FileChanged` where the content is not the listed one any more, OSError where it cannot be read now."""

    def __init__(
        self,
        place: Place,
        file: FileInfo,
        format: type[FormatReader],
        settings: ParsedConfig,
        committed: FileOffset | None,
    ) -> None:
        """committed: where to go on, None for the beginning. Raises `ConnectorError` for a file of another format."""
        if committed is not None and committed.position and committed.unit != format.unit:
            raise ConnectorError(
                f"File {file.name} was read up to {committed.unit} {committed.position}, and positions of this format "
                f"count {format.unit}s. Set the former format, or stop the connector and reset its offsets."
            )
        self.file = file
        self.position = committed.position if committed else 0
        self.unit = format.unit
        self._opened = place.open(file)
        try:
            with self._errors():
                stream = self._opened.stream
                suffix = f".{file.name.rpartition('.')[2]}"
                if format.compressible and suffix in _DECOMPRESS:
                    stream = _DECOMPRESS[suffix](stream)
                self._reader = format(stream, self.position, settings)
        except BaseException:
            self.close()
            raise

    @property
    def at_end(self) -> bool:
        return self._reader.at_end

    @property
    def offset(self) -> FileOffset:
        """After what was read last."""
        return FileOffset(self.file.etag, self.unit, self.position, self.at_end)

    def read(self, limit: int) -> Rows:
        """The next records; none at the end of the file only."""
        with self._errors():
            rows = self._reader.read(limit)
        self._opened.check()
        if rows.positions:
            self.position = rows.positions[-1]
        return rows

    def read_columns(self, limit: int) -> Columns | None:
        """The same by column; None where the format has none, and at the end of the file."""
        with self._errors():
            found = self._reader.read_columns(limit)
        if found is None:
            return None
        self._opened.check()
        self.position = found.first + len(found.values[0]) - 1
        return found

    def read_lines(self, limit: int) -> list[bytes] | None:
        """The same as ready bytes; None where the format has none."""
        with self._errors():
            found = self._reader.read_lines(limit)
        if found is None:
            return None
        self._opened.check()
        lines, self.position = found
        return lines

    def close(self) -> None:
        self._opened.close()

    def _errors(self) -> "_Errors":
        return _Errors(self)


class _Errors:
    """What is wrong with the content becomes an error for people, unless the content has changed."""

    def __init__(self, reading: FileReading) -> None:
        self._reading = reading

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _BROKEN):
            self._reading._opened.check()
            reading = self._reading
            raise ConnectorError(
                f"File {reading.file.name} cannot be read on from {reading.unit} {reading.position}: {error}. "
                "All records before were delivered. Mend the file, or leave it out with input.file.pattern; "
                "on.change=read reads a mended file from its beginning."
            ) from error
