"""The position in each topic, moved by compare-and-set inside the transaction that writes the rows.

So the projection is exactly once: if a batch is applied twice, or by two projectors, the second time fails together
with its rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ringfence.plain_queries import select, update
from ringfence.projection.models import TopicPosition

_HERE: Final = "role = %s AND partition = %s AND applied_offset = %s"


class Superseded(Exception):
    """Another projector has moved the position: read the position again and continue from there."""


@dataclass(frozen=True, slots=True)
class Position:
    """The position in one topic: the next offset per partition. topic_id: "" if nothing was applied yet."""

    topic: str = ""
    topic_id: str = ""
    offsets: Mapping[int, int] | None = None

    def next_offset(self, partition: int) -> int:
        return (self.offsets or {}).get(partition, 0)


def read_position(role: str) -> Position:
    """Return the current position in the topic of a role."""
    rows = list(TopicPosition.objects.filter(role=role))
    if not rows:
        return Position()
    return Position(rows[0].topic, rows[0].topic_id, {row.partition: row.applied_offset for row in rows})


def delete_outdated(role: str, topic: str, topic_id: str) -> None:
    """Forget the role's positions, for a topic that was created again. Inside the transaction that empties its rows."""
    TopicPosition.objects.filter(role=role).exclude(topic=topic, topic_id=topic_id).delete()


def move(role: str, topic: str, topic_id: str, expected: Mapping[int, int], reached: Mapping[int, int]) -> None:
    """Move every partition from `expected` to `reached`. Inside the transaction that writes the rows.

    Raises `Superseded` if another projector has moved any of them.
    """
    for partition, offset in reached.items():
        before = expected.get(partition)
        if before == offset:
            continue
        if before is None:
            row = TopicPosition(role=role, partition=partition, topic=topic, topic_id=topic_id, applied_offset=offset)
            if TopicPosition.objects.filter(role=role, partition=partition).exists():
                raise Superseded(f"{role}-{partition}: another projector has started")
            row.save(force_insert=True)
            continue
        here = f"{_HERE} AND topic_id = %s"
        if not update(TopicPosition, "applied_offset = %s", here, offset, role, partition, before, topic_id):
            raise Superseded(f"{role}-{partition} is no longer at offset {before}")


def lock_position(role: str, partition: int, offset: int) -> None:
    """Lock the partition's position until the transaction's end. Raises `Superseded` if it is not `offset`."""
    if not update(TopicPosition, "applied_offset = applied_offset", _HERE, role, partition, offset):
        raise Superseded(f"{role}-{partition} is no longer at offset {offset}")


def store_shown_offsets(role: str, applied: Mapping[int, int], positions: Mapping[int, int]) -> None:
    """Store that the rows show more than is applied, up to `positions`. Inside the transaction that writes them.

    Raises `Superseded` if a partition's position is not that in `applied`.
    """
    for partition, offset in positions.items():
        before = applied.get(partition, 0)
        if not update(TopicPosition, "shown_offset = %s", _HERE, offset, role, partition, before):
            raise Superseded(f"{role}-{partition} is no longer at offset {before}")


def shown_offset(role: str, partition: int) -> int:
    """Return the offset up to which the rows show everything that is committed; 0 if they show nothing."""
    rows = select(TopicPosition, "applied_offset, shown_offset", "role = %s AND partition = %s", role, partition)
    return max((max(row) for row in rows), default=0)
