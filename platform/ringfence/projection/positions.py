"""How far each topic is applied, moved by compare-and-set inside the transaction that writes the rows.

That makes the projection exactly once by itself: a batch that is applied twice, or by two projectors, fails the second
time, and its rows with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ringfence.projection.models import TopicPosition


class Superseded(Exception):
    """Another projector has moved the position: read again where it stands and go on from there."""


@dataclass(frozen=True, slots=True)
class Stand:
    """What is applied of one topic: the next offset per partition. `topic_id` "": nothing yet."""

    topic: str = ""
    topic_id: str = ""
    offsets: Mapping[int, int] | None = None

    def next_offset(self, partition: int) -> int:
        return (self.offsets or {}).get(partition, 0)


def stand(role: str) -> Stand:
    """Where the topic of that role stands now."""
    rows = list(TopicPosition.objects.filter(role=role))
    if not rows:
        return Stand()
    return Stand(rows[0].topic, rows[0].topic_id, {row.partition: row.applied_offset for row in rows})


def begin(role: str, topic: str, topic_id: str) -> None:
    """Forget the role's positions, for a topic that was created again. Inside the transaction that empties its rows."""
    TopicPosition.objects.filter(role=role).exclude(topic=topic, topic_id=topic_id).delete()


def move(role: str, topic: str, topic_id: str, expected: Mapping[int, int], reached: Mapping[int, int]) -> None:
    """Move every partition from `expected` to `reached`. Inside the transaction that writes the rows.

    Raises Superseded where any of them stands elsewhere by now.
    """
    for partition, offset in reached.items():
        before = expected.get(partition)
        if before == offset:
            continue
        if before is None:
            row = TopicPosition(role=role, partition=partition, topic=topic, topic_id=topic_id, applied_offset=offset)
            if TopicPosition.objects.filter(role=role, partition=partition).exists():
                raise Superseded(f"{role}-{partition}: another projector has begun")
            row.save(force_insert=True)
            continue
        moved = TopicPosition.objects.filter(
            role=role, partition=partition, topic_id=topic_id, applied_offset=before
        ).update(applied_offset=offset)
        if not moved:
            raise Superseded(f"{role}-{partition} does not stand at {before} any more")


def hold(role: str, partition: int, offset: int) -> None:
    """Raises Superseded unless the partition stands there, and keeps it there till the transaction's end."""
    if not TopicPosition.objects.filter(role=role, partition=partition, applied_offset=offset).update(
        applied_offset=offset
    ):
        raise Superseded(f"{role}-{partition} does not stand at {offset} any more")


def show(role: str, applied: Mapping[int, int], shown: Mapping[int, int]) -> None:
    """The rows show more than is applied: up to `shown`. Inside the transaction that writes them.

    Raises Superseded where a partition does not stand at `applied`.
    """
    for partition, offset in shown.items():
        here = TopicPosition.objects.filter(role=role, partition=partition, applied_offset=applied.get(partition, 0))
        if not here.update(shown_offset=offset):
            raise Superseded(f"{role}-{partition} does not stand at {applied.get(partition, 0)} any more")


def shown_offset(role: str, partition: int) -> int:
    """Everything that is committed before it shows in the rows; 0 where nothing does."""
    rows = TopicPosition.objects.filter(role=role, partition=partition).values_list("applied_offset", "shown_offset")
    return max((max(row) for row in rows), default=0)
