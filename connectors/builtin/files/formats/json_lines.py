"""JSON lines: one JSON value per line."""

import json
import re
from typing import ClassVar, Final

import orjson

from ringfence.connectors.api import DataException, Schema
from ringfence.connectors.builtin.files.formats.base import Rows
from ringfence.connectors.builtin.files.formats.text import BOM, OUT, TextReader, decode_text, read_singly
from ringfence.connectors.builtin.files.value_settings import repair_texts
from ringfence.connectors.unsupported_values import Handling, refuse_value

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
