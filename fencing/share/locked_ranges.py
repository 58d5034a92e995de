"""The records of a share group that one task has locked at this moment. Brokers do not report it; only members know."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ringfence.fencing.share.offset_ranges import Ranges

if TYPE_CHECKING:
    from ringfence.fencing.share.input_record import ShareRecord

MOST: Final = 200
"""The maximum of ranges in a report."""

LockedRanges = tuple[tuple[str, int, int, int], ...]
"""Topic, partition, first and last offset of each range."""


def find_held(records: "Iterable[ShareRecord]") -> LockedRanges:
    """Return those of these records that the broker has locked, as ranges."""
    by_partition: dict[tuple[str, int], Ranges] = {}
    for record in records:
        if record.message is not None:
            by_partition.setdefault((record.topic, record.partition), Ranges()).add(record.offset, record.offset)
    return tuple((*place, *pair) for place, ranges in sorted(by_partition.items()) for pair in ranges)[:MOST]
