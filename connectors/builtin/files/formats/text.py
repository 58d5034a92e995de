"""Lines of text, JSON lines (one JSON value per line), and CSV: rows of fields, which may contain delimiters and line
ends in quotes (RFC 4180).

The last line counts even without a line end: files are complete when they are read.
"""

import codecs
import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any, BinaryIO, ClassVar, Final

import orjson

from ringfence.connectors.api import DataException, EncodedStrings, ParsedConfig, Schema, Struct
from ringfence.connectors.api.schemas import STRING, optional, struct
from ringfence.connectors.builtin.file_stream.line_splitting import LineBuffer
from ringfence.connectors.builtin.files.compression import BROKEN
from ringfence.connectors.builtin.files.formats import FormatError, FormatReader, Rows, Unreadable, make_distinct
from ringfence.connectors.builtin.files.settings import (
    CSV_DELIMITER,
    CSV_ESCAPE,
    CSV_HEADER,
    CSV_NULL,
    CSV_QUOTE,
    CSV_RAGGED,
    CUT,
    ENCODING,
    FAIL,
    FILL,
    BadText,
    as_character,
    is_wide,
    options_of,
    repair_text,
    repair_texts,
)
from ringfence.connectors.sdk.unsupported_values import Handling, refuse_value
from ringfence.connectors.sdk.values.texts import is_unicode

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
        self._is_utf8 = codecs.lookup(self._encoding).name == "utf-8"
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
        lines, after = self._lines.take_with_positions(limit)
        positions = [*after]
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
            if self._is_utf8:
                b"\n".join(lines).decode()  # all at once, which takes a tenth of the time
                return Rows(EncodedStrings(lines), positions, self.schema)
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
_JSON_REMEDY: Final = "Write each JSON value on a line of its own"


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
            raise DataException(f"the line is not JSON: {reason}", remedy=_JSON_REMEDY) from None

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


MOST_ROW_BYTES: Final = 16 << 20
"""Of a row of several lines, which are kept until its end: a quote may never be closed."""
_TEXT: Final = optional(STRING)
csv.field_size_limit(MOST_LINE_BYTES)

_Values = list[str | None]


class CsvReader(FormatReader):
    """Each row is a struct of optional strings, with the names of the first row. Empty lines are left out."""

    unit: ClassVar[str] = "byte"

    def __init__(self, file: BinaryIO | Any, position: int, settings: ParsedConfig) -> None:
        self._null = settings.get(CSV_NULL)
        self._ragged = settings.string(CSV_RAGGED)
        self._bad_text = options_of(settings).bad_text
        self._rows = _RowSplitter(file, settings)
        header = settings.boolean(CSV_HEADER)
        self._names = self._read_names(header)
        self._schema: Schema = struct(dict.fromkeys(self._names, _TEXT))
        if not header or position > self._rows.end:
            self._rows.seek(position)
        self._broken: Exception | None = None
        """Why the file cannot be read on, once the rows before are read."""
        self._outcomes = self._parse()
        self._next = self._parse_next()

    def read(self, limit: int) -> Rows:
        values: list[object] = []
        positions: list[int] = []
        unreadable: dict[int, Unreadable] = {}
        schema = self._schema
        while self._next is not None and len(values) < limit:
            row, end = self._next
            if isinstance(row, Unreadable):
                unreadable[len(values)] = row
                values.append(None)
            else:
                values.append(Struct.of(schema, row))  # type: ignore[arg-type] # a list of whatever the fields are
            positions.append(end)
            self._next = self._parse_next()
        if not values and self._broken is not None:
            raise self._broken
        return Rows(values, positions, schema, unreadable)

    @property
    def at_end(self) -> bool:
        return self._next is None and self._broken is None

    def _read_names(self, header: bool) -> list[str]:
        """Return the names of the fields: those in the first row, or numbers."""
        for row in self._rows:
            if isinstance(row, list):
                return make_distinct(row) if header else [f"column{number}" for number in range(1, len(row) + 1)]
            if header:
                raise FormatError(f"its first row, which names the fields, cannot be read: {row.reason}. {row.remedy}")
        return []

    def _parse_next(self) -> tuple[_Values | Unreadable, int] | None:
        try:
            return next(self._outcomes, None)
        except (*BROKEN, FormatError) as error:
            self._broken = error
            return None

    def _parse(self) -> Iterator[tuple[_Values | Unreadable, int]]:
        """Yield each row's values, or why there are none, and the byte after it."""
        rows, length, null = self._rows, len(self._names), self._null
        for row in rows:
            try:
                if isinstance(row, DataException):
                    raise row
                values: _Values = row  # type: ignore[assignment] # nulls are put into it
                if len(values) != length:
                    values = self._fit(values)
                if rows.dirty:
                    values = [each if each is None or is_unicode(each) else self._repair(each) for each in values]
                if null is not None:
                    values = [None if each == null else each for each in values]
                yield values, rows.end
            except DataException as error:
                yield Unreadable(error.at(row=f"at byte {rows.start}"), rows.text), rows.end

    def _fit(self, row: _Values) -> _Values:
        """Return a row that is too short or too long as the setting says. Raises `DataException`."""
        length, missing = len(self._names), len(self._names) - len(row)
        if missing > 0 and self._ragged != FAIL:
            return row + [None] * missing
        if missing < 0 and (self._ragged == CUT or (self._ragged == FILL and not any(row[length:]))):
            return row[:length]
        raise DataException(
            f"the row has {len(row)} fields, where the first row has {length}",
            remedy=f"Set {CSV_RAGGED} to {FILL} or {CUT}, or correct the row",
            settings=(CSV_RAGGED,),
        )

    def _repair(self, text: str) -> str:
        return repair_text(text, self._bad_text)


class _RowSplitter:
    """Iterates over the rows of a file without the empty ones: their fields, or why a row is not CSV.

    Of a row that is not CSV, only the first line is taken, and the next one begins a row again: a quote that is not
    closed costs one line. start, end: the bytes at which the last row began and ended. dirty: whether texts may contain
    bytes that are not in the encoding, as `surrogateescape` writes them.
    """

    def __init__(self, file: BinaryIO | Any, settings: ParsedConfig) -> None:
        quote = as_character(settings.string(CSV_QUOTE))
        delimiter = as_character(settings.string(CSV_DELIMITER))
        escape = as_character(str(settings.get(CSV_ESCAPE) or "")) or None
        self._escape = None if escape is None or escape == quote else _Escape(escape, quote, delimiter)
        self._dialect: dict[str, Any] = {
            "delimiter": delimiter,
            "quotechar": quote,
            "escapechar": None if self._escape is None else escape,
            "strict": True,
        }
        self._file = file
        self._encoding = encoding_of(settings)
        self.dirty = False
        self._reset(0)

    def seek(self, position: int) -> None:
        """Continue with the row that begins at a byte."""
        self._file.seek(position)
        self._reset(position)

    def __iter__(self) -> Iterator[list[str] | DataException]:
        return self._split()

    @property
    def text(self) -> bytes:
        """The last row, as it is in the file."""
        lines = self._lines[self._first - self._base : self._after - self._base]
        return "".join(lines).encode(self._encoding, "surrogateescape")

    @property
    def start(self) -> int:
        return self._starts[self._first - self._base]

    @property
    def end(self) -> int:
        return self._starts[self._after - self._base]

    def _reset(self, position: int) -> None:
        self._lines: list[str] = []
        """Those that were read, from the last row on."""
        self._starts = [position]
        """Of each line, and of the one that is read next."""
        self._base = self._first = self._after = 0
        """The numbers of lines: of the first one in `_lines`; of the last row's first one, and of the one after it."""
        self._rest: list[bytes] = []
        """The beginning of a line that is not read to its end, in parts."""
        self._at_end = False

    def _split(self) -> Iterator[list[str] | DataException]:
        while True:
            first = self._after
            parser = csv.reader(self._lines_from(first), **self._dialect)
            try:
                for row in parser:
                    before, after = self._after, first + parser.line_num
                    if after - before > 1 and self._size(before, after) > MOST_ROW_BYTES:
                        raise csv.Error(_TOO_LONG)
                    self._first, self._after = before, after
                    if row:
                        yield row
                return
            except csv.Error as error:
                problem = DataException(
                    f"the row is not CSV: {error}", remedy=_CSV_REMEDY, settings=(CSV_ESCAPE, CSV_QUOTE)
                )
            self._first, self._after = self._after, self._after + 1
            yield problem

    def _size(self, first: int, after: int) -> int:
        return self._starts[after - self._base] - self._starts[first - self._base]

    def _lines_from(self, number: int) -> Iterator[str]:
        lines = chain(self._lines[number - self._base :], chain.from_iterable(self._read_chunks()))
        return lines if self._escape is None else self._escape_lines(self._escape, lines, number)

    def _escape_lines(self, escape: "_Escape", lines: Iterable[str], number: int) -> Iterator[str]:
        for place, line in enumerate(lines, number):
            # Within a row, the parser asks for a line only if its quote is still open.
            yield escape.protect(line, quoted=place > self._after) if escape.character in line else line

    def _read_chunks(self) -> Iterator[list[str]]:
        """Yield lines. The parser asks for more when it has parsed all lines; it may need them to end a row."""
        while not self._at_end:
            done = self._after - self._base
            self._lines, self._starts, self._base = self._lines[done:], self._starts[done:], self._after
            if self._lines and self._starts[-1] - self._starts[0] > MOST_ROW_BYTES:
                raise csv.Error(_TOO_LONG)
            yield self._decode(self._read_lines())

    def _read_lines(self) -> list[bytes]:
        """Read some whole lines, with their ends."""
        rest = self._rest
        while chunk := self._file.read(CHUNK_BYTES):
            if not rest and not self._starts[-1] and self._encoding == "utf-8":
                check_bom(chunk)
            rest.append(chunk)
            if b"\n" in chunk or b"\r" in chunk or (len(rest) > 1 and rest[-2].endswith(b"\r")):
                lines = b"".join(rest).splitlines(keepends=True)
                # A CR at the end may be half of a CR LF.
                rest[:] = [] if lines[-1].endswith(b"\n") else [lines.pop()]
                if lines:
                    return lines
            if sum(map(len, rest)) > MOST_LINE_BYTES:
                raise FormatError(f"the line at byte {self._starts[-1]} has more than {MOST_LINE_BYTES:,} bytes")
        self._at_end = True
        lines = b"".join(rest).splitlines(keepends=True)
        rest.clear()
        return lines

    def _decode(self, lines: list[bytes]) -> list[str]:
        """Add lines to those that were read."""
        at_start = not self._starts[-1]
        self._starts += list(accumulate(map(len, lines), initial=self._starts.pop()))
        if at_start and lines:
            lines[0] = lines[0].removeprefix(BOM)
        try:
            texts = [line.decode(self._encoding) for line in lines]
        except UnicodeDecodeError:
            texts = [line.decode(self._encoding, "surrogateescape") for line in lines]
            self.dirty = True
        self._lines += texts
        return texts


_TOO_LONG: Final = f"a quote is not closed within {MOST_ROW_BYTES:,} bytes"
_CSV_REMEDY: Final = (
    f"Correct the row; or set {CSV_ESCAPE} if quotes are escaped in another way than by doubling them, or {CSV_QUOTE}"
)


class _Escape:
    """Makes Python's parser take an escape as PostgreSQL and Spark do: in quoted fields, before a quote and itself."""

    def __init__(self, character: str, quote: str, delimiter: str) -> None:
        self.character = character
        self._quote = quote
        escape, mark = re.escape(character), re.escape(quote)
        self._quoted = re.compile(f"(?:[^{mark}{escape}]|{escape}[{mark}{escape}]?|{mark}{mark})*{mark}?", re.DOTALL)
        self._plain = re.compile(f"[^{re.escape(delimiter)}]*(?:{re.escape(delimiter)})?", re.DOTALL)
        self._alone = re.compile(f"{escape}([{mark}{escape}]?)", re.DOTALL)

    def protect(self, line: str, *, quoted: bool) -> str:
        """Double the escapes that stand for themselves. quoted: whether the line begins in a quoted field."""
        parts: list[str] = []
        at, field_begins = 0, not quoted
        while at < len(line):
            if quoted:
                match = self._quoted.match(line, at)
                change: Callable[[str], str] = self._double_alone
                quoted = False
            elif field_begins and line[at] == self._quote:
                parts.append(self._quote)
                at, quoted, field_begins = at + 1, True, False
                continue
            else:
                match = self._plain.match(line, at)
                change = self._double
                field_begins = True
            assert match is not None  # each pattern matches nothing, too
            parts.append(change(match[0]))
            at = match.end()
        return "".join(parts)

    def _double(self, text: str) -> str:
        return text.replace(self.character, self.character * 2)

    def _double_alone(self, text: str) -> str:
        return self._alone.sub(lambda match: match[0] if match[1] else self.character * 2, text)
