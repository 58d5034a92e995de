"""Lines of text, and JSON lines: one JSON value per line.

The last line counts even without a line end: files are complete when they are read.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, ClassVar, Final

import orjson

from ringfence.connectors.api import DataException, ParsedConfig, Schema
from ringfence.connectors.api.schemas import STRING
from ringfence.connectors.builtin.file_stream.line_splitting import LineBuffer
from ringfence.connectors.builtin.files.compression import BROKEN
from ringfence.connectors.builtin.files.formats.base import FormatError, FormatReader, Rows, Unreadable
from ringfence.connectors.builtin.files.settings import (
    ENCODING,
    BadText,
    is_wide,
    options_of,
    repair_text,
    repair_texts,
)
from ringfence.connectors.sdk.unsupported_values import Handling, refuse_value

CHUNK_BYTES: Final = 1 << 20
MOST_LINE_BYTES: Final = 128 << 20
"""Of a line, which is kept in memory: a compressed file of a megabyte may be a line of a gigabyte."""
BOM: Final = b"\xef\xbb\xbf"
_OTHER_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")


class TextReader(FormatReader):
    """Each line is a string. A line ends with LF, CR LF or CR."""

    unit: ClassVar[str] = "byte"
    schema: ClassVar[Schema | None] = STRING

    def __init__(self, file: BinaryIO | Any, position: int, settings: ParsedConfig) -> None:
        self._file = file
        self._encoding = encoding_of(settings)
        self._options = options_of(settings)
        if position:
            file.seek(position)
        self._read_to = position
        self._lines = LineBuffer(position)
        self._all_read = False
        self._broken: Exception | None = None
        """Why the file cannot be read on, once the lines before are read."""

    def read(self, limit: int) -> Rows:
        self._fill(limit)
        start = self._lines.position
        lines, positions = self._lines.take_with_positions(limit)
        if positions:
            positions[-1] = min(positions[-1], self._read_to)
        return self.decode(lines, positions, start)

    def read_lines(self, limit: int) -> tuple[list[bytes], int] | None:
        self._fill(limit)
        return self._lines.take(limit), min(self._lines.position, self._read_to)

    @property
    def at_end(self) -> bool:
        return self._all_read and not len(self._lines)

    def decode(self, lines: list[bytes], positions: list[int], start: int) -> Rows:
        """Return the records of some lines. positions: the byte after each; start: that of the first."""
        encoding = self._encoding
        try:
            return Rows([line.decode(encoding) for line in lines], positions, self.schema)
        except UnicodeDecodeError:
            return read_singly(lines, positions, start, self._text_of, self.schema)

    def _text_of(self, line: bytes) -> object:
        return decode_text(line, self._encoding, self._options.bad_text)

    def _fill(self, limit: int) -> None:
        """Read more lines than are taken, so that the last one is known to be the last."""
        while len(self._lines) <= limit and not self._all_read and self._broken is None:
            try:
                self._add(self._file.read(CHUNK_BYTES))
            except (*BROKEN, FormatError) as error:
                self._broken = error
        if self._broken is not None and not len(self._lines):
            raise self._broken

    def _add(self, chunk: bytes) -> None:
        if not chunk:
            self._lines.finish()
            self._all_read = True
            return
        if not self._read_to and self._encoding == "utf-8":
            check_bom(chunk)
        self._read_to += len(chunk)
        self._lines.feed(chunk)
        if not len(self._lines) and self._read_to - self._lines.position > MOST_LINE_BYTES:
            raise FormatError(f"the line at byte {self._lines.position} has more than {MOST_LINE_BYTES:,} bytes")


def encoding_of(settings: ParsedConfig) -> str:
    """Return the encoding of the bytes that a reader gets: UTF-16 has become UTF-8."""
    encoding = settings.string(ENCODING)
    return "utf-8" if is_wide(encoding) else encoding


def check_bom(chunk: bytes) -> None:
    """Raise `FormatError` for a file that says to be UTF-16, and is read as UTF-8."""
    if chunk.startswith(_OTHER_BOMS):
        raise FormatError(f"it begins as UTF-16 does. Set {ENCODING}=utf-16")


def decode_text(data: bytes, encoding: str, bad_text: BadText) -> str:
    """Return the text, repaired as the setting says. Raises `DataException`."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return repair_text(data.decode(encoding, "surrogateescape"), bad_text)


def read_singly(
    lines: Sequence[bytes],
    positions: Sequence[int],
    start: int,
    value_of: Callable[[bytes], object],
    schema: Schema | None,
) -> Rows:
    """Return the records of some lines, with those that `value_of` refuses; without those that it leaves `OUT`."""
    values: list[object] = []
    remaining: list[int] = []
    unreadable: dict[int, Unreadable] = {}
    for line, position in zip(lines, positions, strict=True):
        value: object = None
        try:
            value = value_of(line)
        except DataException as error:
            unreadable[len(values)] = Unreadable(error.at(row=f"at byte {start}"), line)
        if value is not OUT:
            values.append(value)
            remaining.append(position)
        start = position
    return Rows(values, remaining, schema, unreadable)


class _Out:
    """Stands for a line without a record."""


OUT: Final = _Out()


_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG: Final = b"0" * 19
_LONG_NUMBER: Final = re.compile(rb"(?<![0-9.])-?[0-9]{19,}")
_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1
_REMEDY: Final = "Write each JSON value on a line of its own"


class JsonLinesReader(TextReader):
    """Values have no schema. Empty lines are left out. Of a key that an object has twice, the last value counts."""

    schema: ClassVar[Schema | None] = None

    def read(self, limit: int) -> Rows:
        while True:
            rows = super().read(limit)
            if rows.values or self.at_end:
                return rows

    def read_lines(self, limit: int) -> tuple[list[bytes], int] | None:
        return None  # lines that are not JSON must be detected

    def decode(self, lines: list[bytes], positions: list[int], start: int) -> Rows:
        if not start and lines:
            lines[0] = lines[0].removeprefix(BOM)
        # orjson makes floats of longer integers. All digits are found at once, which is much cheaper than in each line.
        if self._encoding == "utf-8" and _LONG not in b"\n".join(lines).translate(_ZEROS):
            try:
                return Rows([orjson.loads(line) for line in lines], positions, None)
            except orjson.JSONDecodeError:
                pass  # a line is empty, or not JSON
        return read_singly(lines, positions, start, self._value_of, None)

    def _value_of(self, line: bytes) -> object:
        if not line.strip():
            return OUT
        if self._encoding != "utf-8":
            line = decode_text(line, self._encoding, self._options.bad_text).encode()
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            return self._read_odd(line, error.msg)
        return value if _fits(line) else self._read_odd(line, "")

    def _read_odd(self, line: bytes, reason: str) -> object:
        """Read what orjson does not: NaN, numbers beyond its types, bytes that are not text, halves of surrogate pairs.
        Raises `DataException`. reason: what orjson says.
        """
        try:
            value = json.loads(
                line.decode("utf-8", "surrogateescape"),
                parse_int=self._integer,
                parse_float=self._float,
                parse_constant=self._replace_unsupported,
            )
            return repair_texts(value, self._options.bad_text)
        except RecursionError:
            raise DataException("the JSON is nested too deeply", remedy="Correct the line") from None
        except json.JSONDecodeError:
            raise DataException(f"the line is not JSON: {reason}", remedy=_REMEDY) from None

    def _integer(self, text: str) -> object:
        if len(text) < 19:
            return int(text)
        number = int(text) if len(text) <= 20 else _MOST + 1
        return number if _LEAST <= number <= _MOST else self._replace_unsupported(text)

    def _float(self, text: str) -> object:
        number = float(text)
        return self._replace_unsupported(text) if number in (float("inf"), float("-inf")) else number

    def _replace_unsupported(self, text: str) -> object:
        if self._options.unsupported is Handling.FAIL:
            reason = "the JSON contains a number that neither 64 bits nor a double hold"
            raise refuse_value(reason, text)
        return text if self._options.unsupported is Handling.TEXT else None


def _fits(line: bytes) -> bool:
    """Return whether all integers surely have 64 bits."""
    return all(len(each) <= 20 and _LEAST <= int(each) <= _MOST for each in _LONG_NUMBER.findall(line))
