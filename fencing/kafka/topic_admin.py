"""Asks the cluster about its topics, watches their ids, and creates and deletes them."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from ringfence.connectors.sdk.topic_durability import MIN_ISR, add_min_isr
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.kafka.client_pool import admin_client, asking
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


EVERY_SECONDS = 3.0
_ANSWER_SECONDS = 5.0
_SURE = 2
"""How many checks in a row must agree: a broker that has just started may not know each topic yet."""


class TopicWatch:
    """One thread calls `look` often. topic_ids: the id of each topic by name."""

    def __init__(self, connection: Connection, topic_ids: Mapping[str, str], every: float = EVERY_SECONDS) -> None:
        self._connection = connection
        self._topic_ids = dict(topic_ids)
        self._every = every
        self._client: AdminClient | None = None
        self._futures: Mapping[str, Future[Any]] = {}
        self._next = 0.0
        self._odd: dict[str, str | None] = {}
        self._times = 0

    def look(self, now: float) -> Mapping[str, str | None]:
        """Return the topics that certainly differ with their id, None for a missing one. now: monotonic seconds."""
        if self._futures:
            if all(future.done() for future in self._futures.values()):
                self._take(self._futures)
                self._futures, self._client = {}, None
        elif now >= self._next and self._topic_ids:
            self._next = now + self._every
            with kafka_errors("describing topics"):
                self._client = admin_client(self._connection)  # kept: its answers go with it
                futures = self._client.describe_topics(
                    TopicCollection(list(self._topic_ids)), request_timeout=_ANSWER_SECONDS
                )
            self._futures = futures
        return self._odd if self._times >= _SURE else {}

    def _take(self, answers: Mapping[str, Future[Any]]) -> None:
        odd: dict[str, str | None] = {}
        for name, future in answers.items():
            try:
                with kafka_errors(f"describing topic {name}"):
                    topic_id: str | None = str(future.result().topic_id)
            except FencingError as error:
                if error.code != "UNKNOWN_TOPIC_OR_PART":
                    return  # no answer, or no permission: nothing is known
                topic_id = None
            if topic_id != self._topic_ids[name]:
                odd[name] = topic_id
        self._times = self._times + 1 if odd and odd == self._odd else int(bool(odd))
        self._odd = odd


_REPLICATION = "default.replication.factor"


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create. replication: -1 for the broker's default."""

    name: str
    partitions: int = 1
    replication: int = -1
    config: Mapping[str, str] | None = None


def create_topics(connection: Connection, topics: Sequence[TopicSpec], deadline: Deadline) -> list[str]:
    """Create missing topics, and return their names. Existing topics are not changed.

    A topic with three or more replicas gets `min.insync.replicas=2`, unless its settings or the brokers' say otherwise.
    """
    defaults = _defaults(connection, deadline) if any(topic.replication not in (1, 2) for topic in topics) else {}
    new_topics = [
        NewTopic(topic.name, topic.partitions, topic.replication, config=_with_min_isr(topic, defaults))
        for topic in topics
    ]
    names = []
    client = admin_client(connection)
    futures = client.create_topics(new_topics, request_timeout=max(1.0, deadline.remaining))
    for name, future in futures.items():
        try:
            with asking(connection, f"creating topic {name}"):
                future.result()
            names.append(name)
        except FencingError as error:
            if error.code != "TOPIC_ALREADY_EXISTS":
                raise
    return names


def _with_min_isr(topic: TopicSpec, brokers: Mapping[str, str]) -> dict[str, str]:
    replicas = topic.replication if topic.replication > 0 else int(brokers.get(_REPLICATION, "1"))
    return add_min_isr(topic.config or {}, replicas, int(brokers.get(MIN_ISR, "1")))


def _defaults(connection: Connection, deadline: Deadline) -> dict[str, str]:
    """Return the brokers' settings for replicas of new topics; {} if this principal may not ask."""
    try:
        with asking(connection, "asking for the brokers' settings") as client:
            nodes = client.describe_cluster(request_timeout=max(0.5, deadline.remaining)).result().nodes
            resource = ConfigResource(ConfigResource.Type.BROKER, str(nodes[0].id))
            futures = client.describe_configs([resource], request_timeout=max(0.5, deadline.remaining))
            settings = futures[resource].result()
    except FencingError as error:
        if error.code != "CLUSTER_AUTHORIZATION_FAILED":
            raise
        return {}
    return {
        name: str(settings[name].value) for name in (_REPLICATION, MIN_ISR) if name in settings and settings[name].value
    }


def topic_ids(connection: Connection, names: Sequence[str], deadline: Deadline) -> dict[str, str | None]:
    """Return the id of each of these topics, None for a missing one. Raises `FencingError` if that is unknown."""
    ids: dict[str, str | None] = {}
    with asking(connection, "describing topics") as client:
        futures = client.describe_topics(TopicCollection(list(names)), request_timeout=max(0.5, deadline.slice(10.0)))
        for name, future in futures.items():
            try:
                with kafka_errors(f"describing topic {name}"):
                    ids[name] = str(future.result().topic_id)
            except FencingError as error:
                if error.code != "UNKNOWN_TOPIC_OR_PART":
                    raise
                ids[name] = None
    return ids


def topic_names(connection: Connection, deadline: Deadline, prefix: str = "") -> list[str]:
    """Return the topics with this prefix that the principal may see, sorted."""
    with asking(connection, "listing topics") as client:
        topics = client.list_topics(timeout=max(0.5, deadline.slice(10.0))).topics
    return sorted(name for name in topics if name.startswith(prefix))


def delete_topics(connection: Connection, names: Sequence[str], deadline: Deadline) -> None:
    """Delete topics; one that does not exist counts as deleted."""
    client = admin_client(connection)
    for name, future in client.delete_topics(list(names), request_timeout=deadline.remaining).items():
        try:
            with asking(connection, f"deleting topic {name}"):
                future.result()
        except FencingError as error:
            if error.code != "UNKNOWN_TOPIC_OR_PART":
                raise


def topic_identity(connection: Connection, topic: str, deadline: Deadline) -> tuple[str, list[int]]:
    """Return the topic's id and partitions. Waits for a missing topic until `deadline`, then raises `Retriable`."""
    while True:
        try:
            with asking(connection, f"describing topic {topic}") as client:
                futures = client.describe_topics(
                    TopicCollection([topic]), request_timeout=max(0.5, deadline.slice(5.0))
                )
                description = futures[topic].result()
            return str(description.topic_id), [partition.id for partition in description.partitions]
        except FencingError as error:
            missing = error.code == "UNKNOWN_TOPIC_OR_PART"
            if not missing and (deadline.expired or not isinstance(error, Retriable)):
                raise
            if deadline.expired:
                raise Retriable(f"Topic {topic} does not exist: {error}", error.code) from error
            admin_client(connection).poll(deadline.slice(0.1))


def topic_exists(connection: Connection, topic: str, deadline: Deadline) -> bool:
    """Return whether the topic exists, as far as this principal may know."""
    try:
        with asking(connection, f"describing topic {topic}") as client:
            futures = client.describe_topics(TopicCollection([topic]), request_timeout=max(0.5, deadline.remaining))
            futures[topic].result()
    except FencingError as error:
        if error.code != "UNKNOWN_TOPIC_OR_PART":
            raise
        return False
    return True


def topic_setting(connection: Connection, topic: str, name: str, deadline: Deadline) -> str | None:
    """Return one setting of a topic; None if this principal may not ask."""
    return (topic_settings(connection, topic, deadline) or {}).get(name)


def topic_settings(connection: Connection, topic: str, deadline: Deadline) -> dict[str, str] | None:
    """Return the settings of a topic; None if this principal may not ask."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        with asking(connection, f"asking for the settings of topic {topic}") as client:
            futures = client.describe_configs([resource], request_timeout=max(0.5, deadline.remaining))
            entries = futures[resource].result()
    except FencingError as error:
        if error.code not in ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"):
            raise
        return None
    return {name: str(entry.value) for name, entry in entries.items()}


def find_topic(connection: Connection, topic: str, deadline: Deadline) -> bool:
    """Return whether the topic exists. If not, the brokers are asked to create it, which takes them a moment."""
    with asking(connection, f"looking for topic {topic}") as client:
        metadata = client.list_topics(topic, timeout=max(0.5, deadline.remaining)).topics.get(topic)
    return metadata is not None and metadata.error is None


def cluster_id(connection: Connection, deadline: Deadline) -> str:
    """Return the cluster's id, which `GET /` shows."""
    with asking(connection, "asking for the cluster's id") as client:
        cluster = client.describe_cluster(request_timeout=max(0.5, deadline.remaining)).result()
    if not cluster.cluster_id:
        raise Fatal("The cluster does not report its id")
    return str(cluster.cluster_id)
