"""Writes the connectors' active topics (KIP-558) from the status topic as rows."""

from collections.abc import Iterable

from ringfence.fencing.topics.active_topics import TopicStatus, parts_of
from ringfence.projection.clean_text import clean
from ringfence.projection.models import ActiveTopic


def write(records: Iterable[TopicStatus]) -> None:
    """Add topics; the first record of each counts. Inside the transaction."""
    rows = [
        ActiveTopic(connector=clean(one.connector), topic=clean(one.topic), since_ms=one.since_ms) for one in records
    ]
    ActiveTopic.objects.bulk_create(rows, ignore_conflicts=True, batch_size=200)


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
