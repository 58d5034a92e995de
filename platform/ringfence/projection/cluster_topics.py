"""Stores the cluster's topics in the database, and the loss of one, for the web process.

After the loss of a topic, the pages and the API still show the rows, as of the loss, and say so.
"""

from dataclasses import dataclass

from ringfence.fencing.clock import epoch_ms
from ringfence.fencing.topics import topic_ids
from ringfence.fencing.topics.topic_ids import Topic, TopicIds
from ringfence.plain_queries import select
from ringfence.projection.models import ClusterInfo, Connector, TopicPosition


@dataclass(frozen=True, slots=True)
class Lost:
    """reason: the message, with the remedy; since_ms: when a worker first reported it."""

    reason: str
    since_ms: int


def recall() -> TopicIds | None:
    """Return the stored topics; None if there are none, or no connector that could be lost."""
    if not Connector.objects.filter(known=True).exists():
        return None
    return recall_or_derive()


def recall_or_derive() -> TopicIds | None:
    """Return the stored topics; else, with version 0, those that the rows were made from."""
    row = ClusterInfo.objects.filter(id=1).first()
    ids = topic_ids.loads(row.topic_ids) if row is not None else None
    if ids is not None:
        return ids
    positions = TopicPosition.objects.filter(partition=0).values_list("role", "topic", "topic_id")
    topics = {role: Topic(topic, id_) for role, topic, id_ in positions}
    return TopicIds(0, topics) if topics else None


def remember(ids: TopicIds) -> None:
    """Store the topics that the rows come from, and that none of them is lost."""
    defaults = {"topic_ids": topic_ids.dumps(ids).decode(), "topics_lost": "", "topics_lost_ms": 0}
    ClusterInfo.objects.update_or_create(id=1, defaults=defaults)


def accepts(ids: TopicIds | None, role: str, topic: Topic) -> bool:
    """Return whether this topic may replace another one's rows: it was accepted, or there is nothing to lose."""
    if ids is None or ids.topics.get(role) != topic:
        return False
    before = recall()
    return before is None or before.topics.get(role) == topic or ids.version > before.version


def store_loss(reason: str) -> None:
    """Store that a topic is lost, until `remember`."""
    row, _ = ClusterInfo.objects.get_or_create(id=1)
    if row.topics_lost != reason:
        row.topics_lost, row.topics_lost_ms = reason, row.topics_lost_ms or epoch_ms()
        row.save(update_fields=["topics_lost", "topics_lost_ms"])


def find_lost() -> Lost | None:
    """Return the loss; None if no topic is lost."""
    rows = select(ClusterInfo, "topics_lost, topics_lost_ms", "id = 1 AND topics_lost <> ''")
    return Lost(*rows[0]) if rows else None
