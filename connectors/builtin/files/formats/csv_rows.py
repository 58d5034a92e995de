"""CSV: rows of fields, which may contain delimiters and line ends in quotes (RFC 4180)."""

import csv
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar, Final

from ringfence.connectors.api import ParsedConfig, Schema, Struct
from ringfence.connectors.api.schemas import STRING, optional, struct
from ringfence.connectors.builtin.files.formats.base import FormatError, FormatReader, Rows
from ringfence.connectors.builtin.files.formats.text import MOST_LINE_BYTES
from ringfence.connectors.builtin.files.settings import (
    CSV_DELIMITER,
    CSV_HEADER,
    CSV_NULL,
    CSV_QUOTE,
    ENCODING,
    as_character,
)

_BOM: Final = b"\xef\xbb\xbf"
_TEXT: Final = optional(STRING)
csv.field_size_limit(MOST_LINE_BYTES)


class CsvReader(FormatReader):
    """Each row is a struct of optional strings, with the names of the first row. Empty lines are left out."""

    unit: ClassVar[str] = "byte"

    def __init__(self, file: BinaryIO | Any, position: int, settings: ParsedConfig) -> None:
        self._file = file
        self._encoding = settings.string(ENCODING)
        self._null = settings.get(CSV_NULL)
        self._at = 0
        """The byte after the last line that the parser was given. The parser takes a line only when it needs one."""
        self._parser = csv.reader(
            self._lines(),
            delimiter=as_character(settings.string(CSV_DELIMITER)),
            quotechar=as_character(settings.string(CSV_QUOTE)),
            strict=True,
        )
        self._schema: Schema | None = None
        if settings.boolean(CSV_HEADER):
            self._schema = _schema_of(self._next_row() or [])
        elif position:
            self._schema = _schema_of(_number_columns(len(self._next_row() or [])))
            file.seek(0)
            self._at = 0
        if position > self._at:
            file.seek(position)
            self._at = position
        self._row = self._next_row()
        self._row_end = self._at

    def read(self, limit: int) -> Rows:
        values: list[object] = []
        positions: list[int] = []
        null = self._null
        while self._row is not None and len(values) < limit:
            row: list[str | None] = list(self._row)
            schema = self._schema
            if schema is None:
                schema = self._schema = _schema_of(_number_columns(len(row)))
            if len(row) != len(schema.fields):
                raise FormatError(
                    f"the row before byte {self._row_end} has {len(row)} fields, where the first row has "
                    f"{len(schema.fields)}"
                )
            if null is not None:
                row = [None if each == null else each for each in row]
            values.append(Struct.of(schema, row))  # type: ignore[arg-type] # a list of whatever the fields are
            positions.append(self._row_end)
            self._row = self._next_row()
            self._row_end = self._at
        return Rows(values, positions, self._schema)

    @property
    def at_end(self) -> bool:
        return self._row is None

    def _next_row(self) -> list[str] | None:
        """Return the next row that is not empty; None at the end."""
        start = self._at
        try:
            return next((row for row in self._parser if row), None)
        except csv.Error as error:
            raise FormatError(f"the row at byte {start} is not CSV: {error}") from error
        except UnicodeDecodeError as error:
            raise FormatError(
                f"the row at byte {start} is not {self._encoding} ({error.reason}). Set {ENCODING}"
            ) from error

    def _lines(self) -> Iterator[str]:
        while line := self._file.readline(MOST_LINE_BYTES + 1):
            if len(line) > MOST_LINE_BYTES:
                raise FormatError(f"the line at byte {self._at} has more than {MOST_LINE_BYTES:,} bytes")
            first = self._at == 0
            self._at += len(line)
            yield (line.removeprefix(_BOM) if first else line).decode(self._encoding)


def _schema_of(names: list[str]) -> Schema:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FormatError(f"its first row has two fields with the same name: {', '.join(twice)}")
    return struct(dict.fromkeys(names, _TEXT))


def _number_columns(count: int) -> list[str]:
    return [f"column{number}" for number in range(1, count + 1)]
