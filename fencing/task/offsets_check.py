"""Whether the source offsets that a run relies on are still the newest."""

from collections.abc import Iterable

from ringfence.fencing.errors import Abortable
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffsets, canonical


def require_newest(offsets: Iterable[tuple[Partition, Offset | None]], now: SourceOffsets) -> None:
    """Raise `Abortable` for the first source partition whose committed offset is another one now."""
    for partition, offset in offsets:
        current = now.offset(partition)
        if _as_read(current) != _as_read(offset):
            raise Abortable(
                f"The committed offset of {dict(partition)} is {current}, but {offset} was expected: the task "
                "starts again from the offsets in Kafka"
            )


def _as_read(offset: Offset | None) -> str | None:
    return None if offset is None else canonical(offset)
