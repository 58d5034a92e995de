"""Makes the partitions' leaders forget a share group's position from before its offsets were altered.

AlterShareGroupOffsets only changes the stored state. The leader of a partition keeps using its memory until it must
refuse an acknowledgement of a member (measured with Kafka 4.3), so the next member would get records from the old
position. Therefore a temporary member acquires some records of each partition first, and releases all of them.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_member import Answer, ShareMember

log = logging.getLogger(__name__)

Partition = tuple[str, int]

_POLL_S = 1.0
_QUIET_S = 12.0
_RECORDS = 10


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """A partition's new start and its end. There may be records in between."""

    start: int
    end: int


def is_sure(start: int, first: int, before: int | None) -> bool:
    """Return whether the leader certainly uses the new start. first: the first record of this delivery; before: the
    first record of the previous one, which was released.

    There may be no record at the start. A later first record may also come from the old position, if the start moved
    back. Only if it is delivered again, after the leader has handled its release, is it the first one that exists.
    """
    return first == start or (first > start and first == before)


def reset_leader_positions(
    connection: Connection, group: str, bounds: Mapping[Partition, PartitionBounds], limit: Deadline
) -> list[Partition]:
    """Make the partitions' leaders start there; return those for which it is not certain (`is_sure`). Raises nothing.

    For a partition that starts at its end, it is certain if no record arrives within the time that a member needs to
    join.
    """
    left = {place for place, one in bounds.items() if one.start < one.end}
    quiet = set(bounds) - left
    try:
        member = ShareMember(connection, group, sorted({topic for topic, _ in bounds}), "ringfence-flush", _RECORDS)
    except FencingError as error:
        log.info("%s", error)
        return sorted(bounds)
    began = Deadline.after(_QUIET_S)
    before: dict[Partition, int] = {}
    try:
        while (left or (quiet and not began.expired)) and not limit.expired:
            messages = member.poll(limit.slice(_POLL_S))
            firsts: dict[Partition, int] = {}
            for message in messages:
                member.answer(message, Answer.RELEASE)
                place = str(message.topic()), int(message.partition() or 0)
                firsts[place] = min(firsts.get(place, message.offset() or 0), message.offset() or 0)
            if messages:
                member.send_answers(limit.slice(5.0))
            for place, first in firsts.items():
                if place in bounds and is_sure(bounds[place].start, first, before.get(place)):
                    left.discard(place)
            before |= firsts
    except FencingError as error:
        log.info("%s", error)
        return sorted(left | quiet)
    finally:
        member.close()
    return sorted(left)
