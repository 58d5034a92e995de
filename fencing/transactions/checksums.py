"""CRC-32C of parts: where the checksum of many bytes is known already, they need not be read again. Pure."""

from array import array
from collections.abc import Sequence
from functools import cache
from typing import Final

_POLYNOMIAL: Final = 0x82F63B78

Matrix = list[int]
"""A linear map of checksums; its columns, of 32 bits each."""
Table = Sequence[int]
Tables = tuple[Table, Table, Table, Table]
"""The same, for each value of each of the four bytes."""


def combine(first: int, second: int, size: int) -> int:
    """Return the CRC-32C of two parts from those of each. size: of the second one, in bytes."""
    number = 0
    while size:
        if size & 1:
            one, two, three, four = _tables(number)
            first = one[first & 255] ^ two[first >> 8 & 255] ^ three[first >> 16 & 255] ^ four[first >> 24]
        size >>= 1
        number += 1
    return first ^ second


def remove_first(whole: int, first: int, size: int) -> int:
    """Return the CRC-32C of the second part from those of both together and of the first. size: of the second one."""
    return combine(first, whole, size)


@cache
def _tables(number: int) -> Tables:
    """Return what 2**number zero bytes after the data do to its checksum."""
    columns = _zero_bytes(number)
    first, second, third, fourth = (_table(columns[start : start + 8]) for start in (0, 8, 16, 24))
    return first, second, third, fourth


def _table(columns: Matrix) -> Table:
    table = array("I", [0])
    for column in columns:
        table.extend([each ^ column for each in table])
    return table


@cache
def _zero_bytes(number: int) -> Matrix:
    if number:
        return _square(_zero_bytes(number - 1))
    matrix = [_POLYNOMIAL, *(1 << bit for bit in range(31))]  # one bit
    for _ in range(3):
        matrix = _square(matrix)
    return matrix


def _square(matrix: Matrix) -> Matrix:
    return [_apply(matrix, column) for column in matrix]


def _apply(matrix: Matrix, vector: int) -> int:
    result, column = 0, 0
    while vector:
        if vector & 1:
            result ^= matrix[column]
        vector >>= 1
        column += 1
    return result
