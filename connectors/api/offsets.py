"""Source partitions and source offsets: JSON objects that say what was read of a source, and how far."""

from collections.abc import Mapping, Sequence
from typing import Protocol

SourcePartition = Mapping[str, object]
"""Names one independent stream of the source, e.g. `{"filename": "/data/flights.csv"}`. JSON values only."""

SourceOffset = Mapping[str, object]
"""A position in a source partition, e.g. `{"position": 1024}`. Whether it means the next record to read or the last one
read is up to the connector, which alone interprets it. JSON values only."""


class OffsetReader(Protocol):
    """Reads committed source offsets (KIP-618, "Source record offsets": read_committed, read to the end at start)."""

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        """Return the committed offset of one source partition, or None if there is none yet."""
        ...

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """Return the committed offset of each partition, in the given order."""
        ...
