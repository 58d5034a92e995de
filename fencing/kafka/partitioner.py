"""Computes the partition of a key, as Java clients and all our producers do (`murmur2_random`)."""

from kafka.partitioner.default import murmur2

_POSITIVE = 0x7FFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """Return the key's partition. If the topic got more partitions later, older records may be in another one."""
    partition: int = (murmur2(key) & _POSITIVE) % partitions
    return partition
