"""Record batches as host/BatchPacker.java encodes them, in the plainest way, and what a topic then holds."""

import time
from collections.abc import Sequence
from typing import Final

import google_crc32c

from ringfence.connectors.api.records import EncodedBatch
from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.topics.topic_log import TopicLog

FIRST_MS: Final = int(time.time() * 1000)
"""Now: brokers delete records that are older than a week."""


def read_numbers(connection: Connection, topic: str, partitions: int) -> dict[int, list[int]]:
    """What a read_committed reader sees, by partition."""
    found: dict[int, list[int]] = {number: [] for number in range(partitions)}
    log = TopicLog(connection, topic)
    try:
        for record in log.read_to_end(Deadline.after(120)):
            found[record.partition].append(int(record.value or b"-1"))
    finally:
        log.close()
    return found


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
    return EncodedBatch(
        topic, partition, len(values), size, google_crc32c.value(data), FIRST_MS, FIRST_MS + len(values) - 1, data
    )
