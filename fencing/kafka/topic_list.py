"""Reads the names of a cluster's topics, and details of chosen ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec  # type: ignore[attr-defined]

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.admin_clients import asking
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.error_translation import kafka_errors
from ringfence.fencing.kafka.topic_offsets import list_offsets

_SETTINGS: Final = ("retention.ms", "retention.bytes", "cleanup.policy")


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """offsets: from first to end, over all partitions: records, markers and compacted records.

    newest_ms: the newest record's time, -1 if there is none; settings: {} without DescribeConfigs.
    """

    name: str
    partitions: int
    replicas: int
    offsets: int
    newest_ms: int
    settings: dict[str, str]


def topic_names(connection: Connection, deadline: Deadline) -> list[str]:
    """Return the topics that this principal may see."""
    with asking(connection, "listing topics") as client:
        return sorted(client.list_topics(timeout=max(0.5, deadline.slice(5.0))).topics)


def topic_infos(connection: Connection, names: Sequence[str], deadline: Deadline) -> list[TopicInfo]:
    """Return the details of those of these topics that exist."""
    with asking(connection, "describing topics") as client:
        every = client.list_topics(timeout=max(0.5, deadline.slice(5.0))).topics
        there = {name: every[name] for name in names if name in every and every[name].error is None}
        partitions = [
            TopicPartition(name, number) for name, metadata in there.items() for number in metadata.partitions
        ]
        if not partitions:
            return []
        seconds = max(0.5, deadline.slice(5.0))
        places = {}
        for kind, spec in (
            ("first", OffsetSpec.earliest()),  # type: ignore[no-untyped-call]
            ("end", OffsetSpec.latest()),  # type: ignore[no-untyped-call]
            ("newest", OffsetSpec.max_timestamp()),  # type: ignore[no-untyped-call]
        ):
            level = IsolationLevel.READ_UNCOMMITTED
            places[kind] = list_offsets(client, dict.fromkeys(partitions, spec), level, seconds)
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in there]
        configs = client.describe_configs(resources, request_timeout=seconds)
        settings: dict[str, dict[str, str]] = {}
        for resource, future in configs.items():
            try:
                with kafka_errors("asking for topics' settings"):
                    entries = future.result()
                settings[resource.name] = {key: str(entries[key].value) for key in _SETTINGS if key in entries}
            except FencingError:
                settings[resource.name] = {}
        sizes: dict[str, int] = dict.fromkeys(there, 0)
        newest: dict[str, int] = dict.fromkeys(there, -1)
        for tp in partitions:
            sizes[tp.topic] += places["end"][tp].result().offset - places["first"][tp].result().offset
            newest[tp.topic] = max(newest[tp.topic], places["newest"][tp].result().timestamp)
        return [
            TopicInfo(
                name,
                len(metadata.partitions),
                max((len(each.replicas) for each in metadata.partitions.values()), default=0),
                sizes[name],
                newest[name],
                settings[name],
            )
            for name, metadata in there.items()
        ]
