"""Has the partitions' leaders forget where a share group stood before its offsets were altered.

AlterShareGroupOffsets changes what is stored. The leader of a partition goes on with what it has in memory until an
answer of a member is refused for it (measured with Kafka 4.3): the next member is given records from before. So a
member that nobody sees comes first, takes some records of each partition, and gives all of them back.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.kafka.share_member import Answer, ShareMember

log = logging.getLogger(__name__)

Partition = tuple[str, int]

_POLL_S = 1.0
_QUIET_S = 12.0
_RECORDS = 10


@dataclass(frozen=True, slots=True)
class Altered:
    """Where a partition begins now, and its end. Before its end there may be a record to be given."""

    start: int
    end: int


def is_sure(start: int, first: int, before: int | None) -> bool:
    """first: of the records that came; before: of those that came before them, and were given back.

    There may be no record at the start. But what lies behind it may be of before, too, where the start has gone back:
    only if it comes once more, after the leader has heard an answer to it, is it what there is.
    """
    return first == start or (first > start and first == before)


def flush(connection: Connection, group: str, altered: Mapping[Partition, Altered], limit: Deadline) -> list[Partition]:
    """Returns the partitions of which it is not sure; none after a partition's end is waited for. Raises nothing.

    A partition is sure by `is_sure`; one that begins at its end, when nothing of before comes within the time that a
    member needs to join.
    """
    left = {place for place, one in altered.items() if one.start < one.end}
    quiet = set(altered) - left
    try:
        member = ShareMember(connection, group, sorted({topic for topic, _ in altered}), "ringfence-flush", _RECORDS)
    except FencingError as error:
        log.info("%s", error)
        return sorted(altered)
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
                if place in altered and is_sure(altered[place].start, first, before.get(place)):
                    left.discard(place)
            before |= firsts
    except FencingError as error:
        log.info("%s", error)
        return sorted(left | quiet)
    finally:
        member.close()
    return sorted(left)
