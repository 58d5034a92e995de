"""Lines of text. The last one counts even without a line end: files are complete when they are read."""

from typing import Any, BinaryIO, ClassVar, Final

from ringfence.connectors.api import ParsedConfig, Schema
from ringfence.connectors.api.schemas import STRING
from ringfence.connectors.builtin.file_stream.line_splitting import LineBuffer
from ringfence.connectors.builtin.files.formats.base import FormatError, FormatReader, Rows
from ringfence.connectors.builtin.files.settings import ENCODING

CHUNK_BYTES: Final = 1 << 20
MOST_LINE_BYTES: Final = 128 << 20
"""Of a line, which is kept in memory: a compressed file of a megabyte may be a line of a gigabyte."""


class TextReader(FormatReader):
    """Each line is a string. A line ends with LF, CR LF or CR."""

    unit: ClassVar[str] = "byte"
    schema: ClassVar[Schema | None] = STRING

    def __init__(self, file: BinaryIO | Any, position: int, settings: ParsedConfig) -> None:
        self._file = file
        self._encoding = settings.string(ENCODING)
        if position:
            file.seek(position)
        self._read_to = position
        self._lines = LineBuffer(position)
        self._all_read = False

    def read(self, limit: int) -> Rows:
        self._fill(limit)
        start = self._lines.position
        lines, positions = self._lines.take_with_positions(limit)
        if positions:
            positions[-1] = min(positions[-1], self._read_to)
        return Rows(self.decode(lines, start), positions, self.schema)

    def read_lines(self, limit: int) -> tuple[list[bytes], int] | None:
        self._fill(limit)
        return self._lines.take(limit), min(self._lines.position, self._read_to)

    @property
    def at_end(self) -> bool:
        return self._all_read and not len(self._lines)

    def decode(self, lines: list[bytes], start: int) -> list[object]:
        """Return the value of each line. start: the byte at which the first one begins."""
        try:
            return [line.decode(self._encoding) for line in lines]
        except UnicodeDecodeError as error:
            raise FormatError(
                f"a line after byte {start} is not {self._encoding} ({error.reason}). Set {ENCODING}, or use "
                "ByteArrayConverter for the values, which keeps lines unchanged"
            ) from error

    def _fill(self, limit: int) -> None:
        """Read more lines than are taken, so that the last one is known to be the last."""
        while len(self._lines) <= limit and not self._all_read:
            chunk = self._file.read(CHUNK_BYTES)
            self._read_to += len(chunk)
            if chunk:
                self._lines.feed(chunk)
                if not len(self._lines) and self._read_to - self._lines.position > MOST_LINE_BYTES:
                    raise FormatError(
                        f"the line at byte {self._lines.position} has more than {MOST_LINE_BYTES:,} bytes"
                    )
            else:
                self._lines.finish()
                self._all_read = True
