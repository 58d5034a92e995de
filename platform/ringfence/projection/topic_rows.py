"""Writes the connectors' active topics (KIP-558) from the status topic as rows."""

from collections.abc import Iterable
from dataclasses import replace

from ringfence.fencing.topics.active_topics import TopicStatus, parts_of
from ringfence.projection.clean_text import clean
from ringfence.projection.models import ActiveTopic, Event, pack

TOPIC_REPLACED = "topic replaced"
"""The kind of the event of a topic that was deleted and created again."""


def write(records: Iterable[TopicStatus]) -> None:
    """Add topics, of which the first record counts, and notice those that were deleted and created again. Inside the
    transaction.
    """
    newest: dict[tuple[str, str], TopicStatus] = {}
    for one in records:
        key = clean(one.connector), clean(one.topic)
        newest[key] = replace(one, since_ms=newest[key].since_ms if key in newest else one.since_ms)
    rows = ActiveTopic.objects.filter(
        connector__in={connector for connector, _ in newest}, topic__in={topic for _, topic in newest}
    )
    known_topics = {(row.connector, row.topic): row for row in rows}
    new_rows = []
    for key, one in newest.items():
        row, topic_id = known_topics.get(key), clean(one.topic_id)
        if row is None:
            new_rows.append(ActiveTopic(connector=key[0], topic=key[1], since_ms=one.since_ms, topic_id=topic_id))
        elif topic_id and row.topic_id != topic_id:
            if row.topic_id:
                row.replaced_ms = one.since_ms
                Event.objects.create(
                    connector=row.connector,
                    type="warning",
                    time_ms=one.since_ms,
                    summary=_describe_replaced(row.topic),
                    body=pack({"kind": TOPIC_REPLACED, "topic": row.topic}),
                )
            row.topic_id = topic_id
            row.save(update_fields=["topic_id", "replaced_ms"])
    ActiveTopic.objects.bulk_create(new_rows, ignore_conflicts=True, batch_size=200)


def _describe_replaced(topic: str) -> str:
    return (
        f"Topic {topic} was deleted and created again. What it held is gone, and does not come again by itself: the "
        "source offsets are where they were"
    )


def remove(key: str) -> str | None:
    """Apply a tombstone. Return the connector's name if the key is a topic's."""
    parts = parts_of(key)
    if parts is None:
        return None
    connector, topic = parts
    ActiveTopic.objects.filter(connector=clean(connector), topic=clean(topic)).delete()
    return connector


def forget() -> None:
    ActiveTopic.objects.all().delete()
