"""Record batches as brokers keep them, and the records of fetched ones, for tests."""

import struct

import google_crc32c

from ringfence.connectors.api.fetching import FetchedBatch, Run
from ringfence.fencing.transactions.record_batches import RecordBatch

_COVERED = 21
"""Where that begins which the checksum is of."""


def stored(batch: RecordBatch, first: int, producer_id: int = 1, **fields: int) -> bytes:
    """The batch as a broker keeps it. fields: of the head, in place of the producer's."""
    whole = bytearray(batch.head(producer_id, 0, 0) + batch.data)
    struct.pack_into(">q", whole, 0, first)
    places = {"leader_epoch": (">i", 12), "attributes": (">H", 21), "last_delta": (">i", 23), "first_ms": (">q", 27)}
    for name, value in fields.items():
        form, at = places[name]
        struct.pack_into(form, whole, at, value)
    struct.pack_into(">I", whole, 17, google_crc32c.value(bytes(whole[_COVERED:])))
    return bytes(whole)


def run_of(batch: FetchedBatch) -> Run:
    """The records of one batch."""
    run = Run.empty(batch.topic, batch.partition)
    batch.add_to(run)
    return run
