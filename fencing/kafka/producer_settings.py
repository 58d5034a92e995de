"""The default settings of the producers that write a connector's records, under librdkafka's names.

A connector's `producer.override.*` settings replace them. Producers of the platform's own records have theirs where
they are created (`plain_producer`, `report_producer`).
"""

from typing import Final

from ringfence.fencing.kafka.connection import Connection

QUEUE_BYTES: Final = 32 * 1024 * 1024
_QUEUE_MESSAGES: Final = 100_000
"""librdkafka counts only the bytes of values in QUEUE_BYTES. With small records, its own 200 bytes each take most of
the memory, so their number is limited, too. A shorter queue also stays in the processor's caches: a third more
records/s than with ten times as many.
"""
BATCH_BYTES: Final = 512 * 1024
"""4,000 records of 100 bytes in one batch: two batches of half the size cost librdkafka half as much CPU again. A
larger value would be a risk: librdkafka does not split a batch that exceeds a topic's `max.message.bytes` (default
1 MiB).
"""
LINGER_MS: Final = 5
"""How long a record waits for others. Longer would spare brokers work, and cost up to 30 % of the rate."""


def idempotent_settings(connection: Connection) -> dict[str, object]:
    """Return the settings of `IdempotentProducer`, which retries without a limit."""
    return connection.librdkafka(
        enable_idempotence=True,
        message_timeout_ms=0,
        acks="all",
        linger_ms=LINGER_MS,
        queue_buffering_max_kbytes=QUEUE_BYTES // 1024,
        queue_buffering_max_messages=_QUEUE_MESSAGES,
        batch_size=BATCH_BYTES,
        compression_type="none",
        partitioner="murmur2_random",  # as in Java, so that keys go to the same partitions as from other producers
    )
