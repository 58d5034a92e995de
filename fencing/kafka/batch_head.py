"""Puts the head before records that another process has encoded: producer, sequence number, checksum. Pure.

The checksum covers head and records. The records come with their own, so it is combined from both: their bytes need not
be read again.
"""

import struct
from functools import cache
from typing import Final

from ringfence.connectors.api.records import EncodedBatch

_MAGIC: Final = 2
_TRANSACTIONAL: Final = 0x10
_NO_LEADER_EPOCH: Final = -1
# Base offset, length of the rest, leader epoch, magic, CRC.
_BEFORE: Final = struct.Struct(">qiibI")
# What the checksum covers: attributes, last offset delta, first and newest timestamp, producer id and epoch, sequence
# number of the first record, number of records.
_COVERED: Final = struct.Struct(">hiqqqhii")
_AFTER_LENGTH: Final = 9
_POLYNOMIAL: Final = 0x82F63B78
_ONES: Final = 0xFFFFFFFF
_SEQUENCES: Final = 2**31
HEAD_BYTES: Final = _BEFORE.size + _COVERED.size

Matrix = list[int]
"""A linear map of checksums; its columns, of 32 bits each."""


def add_head(batch: EncodedBatch, producer_id: int, epoch: int, sequence: int) -> bytes:
    """Return the whole record batch of a transaction. sequence: of its first record in its partition, from 0 on."""
    covered = _COVERED.pack(
        _TRANSACTIONAL,
        batch.records - 1,
        batch.first_ms,
        batch.newest_ms,
        producer_id,
        epoch,
        sequence,
        batch.records,
    )
    size = len(batch.data)
    length = _AFTER_LENGTH + _COVERED.size + size
    crc = combine(crc32c(covered), batch.crc, size)
    return b"".join((_BEFORE.pack(0, length, _NO_LEADER_EPOCH, _MAGIC, crc), covered, batch.data))


def next_sequence(sequence: int, records: int) -> int:
    """Return the sequence number after these records. After the largest one comes 0."""
    return (sequence + records) % _SEQUENCES


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of some bytes, in pure Python: for few bytes."""
    table, crc = _table(), _ONES
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ _ONES


def combine(first: int, second: int, size: int) -> int:
    """Return the CRC-32C of two parts from those of each. size: of the second one, in bytes."""
    for number, matrix in enumerate(_zero_bytes()):
        if size >> number & 1:
            first = _apply(matrix, first)
    return first ^ second


@cache
def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


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
