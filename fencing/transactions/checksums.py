"""CRC-32C of parts: where the checksum of many bytes is known already, they need not be read again. Pure."""

from functools import cache
from typing import Final

_POLYNOMIAL: Final = 0x82F63B78

Matrix = list[int]
"""A linear map of checksums; its columns, of 32 bits each."""


def combine(first: int, second: int, size: int) -> int:
    """Return the CRC-32C of two parts from those of each. size: of the second one, in bytes."""
    for number, matrix in enumerate(_zero_bytes()):
        if size >> number & 1:
            first = _apply(matrix, first)
    return first ^ second


@cache
def _zero_bytes() -> list[Matrix]:
    """Return what 1, 2, 4, 8, ... zero bytes after the data do to its checksum."""
    matrix = [_POLYNOMIAL, *(1 << bit for bit in range(31))]  # one bit
    for _ in range(3):
        matrix = _square(matrix)
    matrices = [matrix]
    while len(matrices) < 31:
        matrices.append(_square(matrices[-1]))
    return matrices


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
