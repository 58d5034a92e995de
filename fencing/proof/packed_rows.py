"""Millions of rows in little memory, for one reading after another. Pure.

A proof has to keep something of each transaction: any of them may turn out to lack its records. Neighbours differ by
little, so blocks of rows are kept as differences from row to row, compressed. That takes some bytes for a row, and
hundreds as objects.
"""

import zlib
from array import array
from collections.abc import Iterator
from itertools import accumulate
from operator import sub
from typing import Final

_BLOCK_ROWS: Final = 4096
_BLOCK_BYTES: Final = 256 * 1024
_LEVEL: Final = 1


class PackedRows:
    """Rows of as many integers of 64 bits as there are columns."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._blocks: list[bytes] = []
        self._newest = array("q")

    def append(self, *row: int) -> None:
        """Append a row."""
        self._newest.extend(row)
        if len(self._newest) >= _BLOCK_ROWS * self._columns:
            self._blocks.append(zlib.compress(b"".join(map(_pack, self._split(self._newest))), _LEVEL))
            self._newest = array("q")

    def _split(self, numbers: "array[int]") -> list["array[int]"]:
        return [numbers[column :: self._columns] for column in range(self._columns)]

    def __len__(self) -> int:
        return len(self._blocks) * _BLOCK_ROWS + len(self._newest) // self._columns

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        for block in self._blocks:
            differences = array("q", zlib.decompress(block))
            starts = range(0, len(differences), _BLOCK_ROWS)
            yield from zip(*(accumulate(differences[at : at + _BLOCK_ROWS]) for at in starts), strict=True)
        yield from zip(*self._split(self._newest), strict=True)

    @property
    def bytes(self) -> int:
        """What the rows take in memory."""
        return sum(map(len, self._blocks)) + len(self._newest) * self._newest.itemsize


def _pack(column: "array[int]") -> bytes:
    return array("q", [column[0], *map(sub, column[1:], column)]).tobytes()


class PackedValues:
    """Bytes, or None, in their order."""

    def __init__(self) -> None:
        self._sizes = PackedRows(1)
        self._blocks: list[bytes] = []
        self._newest = bytearray()

    def append(self, value: bytes | None) -> None:
        """Append a value."""
        self._sizes.append(-1 if value is None else len(value))
        self._newest += value or b""
        if len(self._newest) >= _BLOCK_BYTES:
            self._blocks.append(zlib.compress(self._newest, _LEVEL))
            self._newest = bytearray()

    def __iter__(self) -> Iterator[bytes | None]:
        blocks = iter(self._blocks)
        content, at = b"", 0
        for (size,) in self._sizes:
            if size < 0:
                yield None
                continue
            while len(content) - at < size:
                block = next(blocks, None)
                content, at = content[at:] + (bytes(self._newest) if block is None else zlib.decompress(block)), 0
            yield content[at : at + size]
            at += size

    @property
    def bytes(self) -> int:
        """What the values take in memory."""
        return self._sizes.bytes + sum(map(len, self._blocks)) + len(self._newest)
