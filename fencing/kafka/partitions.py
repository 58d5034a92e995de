"""Which partition a record goes to by its key: Java's way, as all our producers have it (`murmur2_random`)."""

from kafka.partitioner.default import murmur2

_POSITIVE = 0x7FFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a topic with so many of them. One that got more since may hold older records elsewhere."""
    found: int = (murmur2(key) & _POSITIVE) % partitions
    return found
