"""Source partitions and source offsets: JSON objects that say where a source was read, and how far."""

from collections.abc import Mapping, Sequence
from typing import Protocol

SourcePartition = Mapping[str, object]
"""Names one independent stream of the source, e.g. `{"filename": "/data/flights.csv"}`. JSON values only."""

SourceOffset = Mapping[str, object]
"""A position in a source partition, e.g. `{"position": 1024}`: of the next record to read, or of the last one read,
as the connector likes, since only the connector reads it back. JSON values only."""


class OffsetReader(Protocol):
    """Reads committed source offsets (KIP-618, "Source record offsets": read_committed, read to the end at start)."""

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """The committed offset of one source partition, or None where nothing was committed yet."""
        ...

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """The committed offset of each partition, in the order asked."""
        ...
