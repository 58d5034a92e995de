"""JSON lines: one JSON value per line."""

from typing import ClassVar

import orjson

from ringfence.connectors.api import Schema
from ringfence.connectors.builtin.files.formats.base import FormatError, Rows
from ringfence.connectors.builtin.files.formats.text import TextReader


class JsonLinesReader(TextReader):
    """Values have no schema. Empty lines are left out."""

    schema: ClassVar[Schema | None] = None

    def read(self, limit: int) -> Rows:
        while True:
            values, positions, schema = super().read(limit)
            if _EMPTY in values:
                pairs = [pair for pair in zip(values, positions, strict=True) if pair[0] is not _EMPTY]
                values, positions = [value for value, _ in pairs], [position for _, position in pairs]
            if values or self.at_end:
                return Rows(values, positions, schema)

    def read_lines(self, limit: int) -> tuple[list[bytes], int] | None:
        return None  # lines that are not JSON must be detected

    def decode(self, lines: list[bytes], start: int) -> list[object]:
        at = start
        values: list[object] = []
        for line in lines:
            text = line.removeprefix(b"\xef\xbb\xbf") if at == 0 else line
            if self._encoding != "utf-8":
                text = text.decode(self._encoding).encode()
            try:
                values.append(orjson.loads(text) if text.strip() else _EMPTY)
            except orjson.JSONDecodeError as error:
                raise FormatError(f"the line at about byte {at} is not JSON: {error.msg}") from error
            at += len(line) + 1
        return values


class _Empty:
    """A line without a value."""


_EMPTY = _Empty()
