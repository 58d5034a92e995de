"""Record batches as host/BatchPacker.java encodes them, in the plainest way."""

import time
from collections.abc import Sequence
from typing import Final

from ringfence.connectors.api.records import EncodedBatch
from ringfence.fencing.kafka.batch_head import crc32c

FIRST_MS: Final = int(time.time() * 1000)
"""Now: brokers delete records that are older than a week."""


def varint(value: int) -> bytes:
    left, out = (value << 1) ^ (value >> 63), bytearray()
    while left & ~0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def encode(values: Sequence[bytes], topic: str = "t", partition: int = 0) -> EncodedBatch:
    """Records without keys and headers, a millisecond apart."""
    data = b""
    for number, value in enumerate(values):
        record = b"\0" + varint(number) + varint(number) + varint(-1) + varint(len(value)) + value + varint(0)
        data += varint(len(record)) + record
    size = sum(map(len, values))
    return EncodedBatch(topic, partition, len(values), size, crc32c(data), FIRST_MS, FIRST_MS + len(values) - 1, data)
