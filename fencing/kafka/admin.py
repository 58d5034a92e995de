"""Asks the cluster about topics and offsets, and creates and deletes topics."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from confluent_kafka import IsolationLevel, KafkaError, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from ringfence.connectors.topic_durability import MIN_ISR, add_min_isr
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.kafka.listed_offsets import list_offsets
from ringfence.fencing.kafka.settings import Connection
from ringfence.fencing.kafka.translation import kafka_errors

_REPLICATION = "default.replication.factor"
_YOUNG_SECONDS = 5.0
_IDLE_SECONDS = 300.0


@dataclass(slots=True)
class _Client:
    """An admin client. since: when it was created; used: when it was last used, both in monotonic time."""

    client: AdminClient
    since: float
    used: float


_Key = tuple[str, tuple[tuple[str, str], ...]]
_clients: dict[_Key, _Client] = {}
_turn = threading.Lock()


def _key(connection: Connection) -> _Key:
    return connection.bootstrap, tuple(sorted(connection.settings.items()))


def _admin(connection: Connection) -> AdminClient:
    """Return the admin client of a cluster and principal: they are thread-safe, and each has its own threads.

    Keep the client until its answers have arrived: they are lost when its last reference is gone.
    """
    key, now = _key(connection), time.monotonic()
    with _turn:
        for other in [other for other, one in _clients.items() if now - one.used > _IDLE_SECONDS]:
            del _clients[other]
        known = _clients.get(key)
        if known is None:
            with kafka_errors("creating the admin client"):
                client = AdminClient(connection.librdkafka())  # type: ignore[arg-type]
            known = _clients[key] = _Client(client, now, now)
        known.used = now
        return known.client


def forget_admin_clients() -> None:
    """Close all admin clients, at the end of a process or of its use of a cluster."""
    with _turn:
        _clients.clear()


@contextmanager
def _asking(connection: Connection, doing: str) -> Iterator[AdminClient]:
    """Yield the client, and translate errors. After a retriable error, the client is not used again.

    Measured with confluent-kafka 2.16: after a broker's restart, a client kept using the old leader epochs, or timed
    out on each call, for minutes; a new one got answers at once.
    """
    client = _admin(connection)
    try:
        with kafka_errors(doing):
            yield client
    except Retriable:
        _retire(connection, client)
        raise


def _retire(connection: Connection, client: AdminClient) -> None:
    with _turn:
        known = _clients.get(_key(connection))
        # If the broker is down, a new client would not help.
        if known is not None and known.client is client and time.monotonic() - known.since >= _YOUNG_SECONDS:
            del _clients[_key(connection)]


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
    known = _defaults(connection, deadline) if any(topic.replication not in (1, 2) for topic in topics) else {}
    wanted = [
        NewTopic(topic.name, topic.partitions, topic.replication, config=_with_min_isr(topic, known))
        for topic in topics
    ]
    created = []
    client = _admin(connection)
    futures = client.create_topics(wanted, request_timeout=max(1.0, deadline.remaining))
    for name, future in futures.items():
        try:
            with _asking(connection, f"creating topic {name}"):
                future.result()
            created.append(name)
        except FencingError as error:
            if error.code != "TOPIC_ALREADY_EXISTS":
                raise
    return created


def _with_min_isr(topic: TopicSpec, brokers: Mapping[str, str]) -> dict[str, str]:
    replicas = topic.replication if topic.replication > 0 else int(brokers.get(_REPLICATION, "1"))
    return add_min_isr(topic.config or {}, replicas, int(brokers.get(MIN_ISR, "1")))


def _defaults(connection: Connection, deadline: Deadline) -> dict[str, str]:
    """Return the brokers' settings for replicas of new topics; {} if this principal may not ask."""
    try:
        with _asking(connection, "asking for the brokers' settings") as client:
            nodes = client.describe_cluster(request_timeout=max(0.5, deadline.remaining)).result().nodes
            resource = ConfigResource(ConfigResource.Type.BROKER, str(nodes[0].id))
            asked = client.describe_configs([resource], request_timeout=max(0.5, deadline.remaining))
            found = asked[resource].result()
    except FencingError as error:
        if error.code != "CLUSTER_AUTHORIZATION_FAILED":
            raise
        return {}
    return {name: str(found[name].value) for name in (_REPLICATION, MIN_ISR) if name in found and found[name].value}


def topic_ids(connection: Connection, names: Sequence[str], deadline: Deadline) -> dict[str, str | None]:
    """Return the id of each of these topics, None for a missing one. Raises `FencingError` if that is unknown."""
    found: dict[str, str | None] = {}
    with _asking(connection, "describing topics") as client:
        asked = client.describe_topics(TopicCollection(list(names)), request_timeout=max(0.5, deadline.slice(10.0)))
        for name, future in asked.items():
            try:
                with kafka_errors(f"describing topic {name}"):
                    found[name] = str(future.result().topic_id)
            except FencingError as error:
                if error.code != "UNKNOWN_TOPIC_OR_PART":
                    raise
                found[name] = None
    return found


def topic_names(connection: Connection, prefix: str, deadline: Deadline) -> list[str]:
    """Return the topics with this prefix, sorted."""
    with _asking(connection, "listing topics") as client:
        found = client.list_topics(timeout=max(0.5, deadline.slice(10.0))).topics
    return sorted(name for name in found if name.startswith(prefix))


def delete_topics(connection: Connection, names: Sequence[str], deadline: Deadline) -> None:
    """Delete topics; one that does not exist counts as deleted."""
    client = _admin(connection)
    for name, future in client.delete_topics(list(names), request_timeout=deadline.remaining).items():
        try:
            with _asking(connection, f"deleting topic {name}"):
                future.result()
        except FencingError as error:
            if error.code != "UNKNOWN_TOPIC_OR_PART":
                raise


def topic_identity(connection: Connection, topic: str, deadline: Deadline) -> tuple[str, list[int]]:
    """Return the topic's id and partitions. Waits for a missing topic until `deadline`, then raises `Retriable`."""
    while True:
        try:
            with _asking(connection, f"describing topic {topic}") as client:
                asked = client.describe_topics(TopicCollection([topic]), request_timeout=max(0.5, deadline.slice(5.0)))
                found = asked[topic].result()
            return str(found.topic_id), [partition.id for partition in found.partitions]
        except FencingError as error:
            if error.code != "UNKNOWN_TOPIC_OR_PART" and not isinstance(error, Retriable):
                raise
            if deadline.expired:
                raise Retriable(f"Topic {topic} does not exist: {error}", error.code) from error
            _admin(connection).poll(deadline.slice(0.1))


def topic_exists(connection: Connection, topic: str, deadline: Deadline) -> bool:
    """Return whether the topic exists, as far as this principal may know."""
    try:
        with _asking(connection, f"describing topic {topic}") as client:
            asked = client.describe_topics(TopicCollection([topic]), request_timeout=max(0.5, deadline.remaining))
            asked[topic].result()
    except FencingError as error:
        if error.code != "UNKNOWN_TOPIC_OR_PART":
            raise
        return False
    return True


def topic_setting(connection: Connection, topic: str, name: str, deadline: Deadline) -> str | None:
    """Return one setting of a topic; None if this principal may not ask."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        with _asking(connection, f"asking for the settings of topic {topic}") as client:
            asked = client.describe_configs([resource], request_timeout=max(0.5, deadline.remaining))
            found = asked[resource].result().get(name)
    except FencingError as error:
        if error.code not in ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"):
            raise
        return None
    return None if found is None else str(found.value)


class Place(Enum):
    """A place in a partition: its first offset, the last stable one, and the read_uncommitted end."""

    FIRST = "first"
    STABLE = "stable"
    END = "end"


def offsets_at(
    connection: Connection, topic: str, partitions: Sequence[int], place: Place, deadline: Deadline
) -> dict[int, int]:
    """Return the offset of this place in each partition."""
    spec = OffsetSpec.earliest() if place is Place.FIRST else OffsetSpec.latest()  # type: ignore[no-untyped-call]
    level = IsolationLevel.READ_COMMITTED if place is Place.STABLE else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(topic, partition): spec for partition in partitions}
    while True:
        try:
            with _asking(connection, f"asking for the {place.value} offset of topic {topic}") as client:
                futures = list_offsets(client, asked, level, max(0.5, deadline.slice(5.0)))
                return {tp.partition: future.result().offset for tp, future in futures.items()}
        except Retriable:
            if deadline.expired:
                raise
            _admin(connection).poll(deadline.slice(0.05))


def offsets_since(
    connection: Connection, topic: str, partitions: Sequence[int], time_ms: int, deadline: Deadline
) -> dict[int, int]:
    """Return the offset of each partition's first record at or after a time (ms since the epoch); -1 for none."""
    asked = {TopicPartition(topic, partition): OffsetSpec.for_timestamp(time_ms) for partition in partitions}
    with _asking(connection, f"asking for the offsets of topic {topic} at a time") as client:
        futures = list_offsets(client, asked, IsolationLevel.READ_UNCOMMITTED, max(0.5, deadline.slice(5.0)))
        return {tp.partition: future.result().offset for tp, future in futures.items()}


def end_offsets(connection: Connection, topic: str, partitions: Sequence[int], deadline: Deadline) -> dict[int, int]:
    """Return the read_uncommitted end offset of each partition (invariant 6)."""
    return offsets_at(connection, topic, partitions, Place.END, deadline)


def cluster_id(connection: Connection, deadline: Deadline) -> str:
    """Return the cluster's id, which `GET /` shows."""
    with _asking(connection, "asking for the cluster's id") as client:
        found = client.describe_cluster(request_timeout=max(0.5, deadline.remaining)).result()
    if not found.cluster_id:
        raise Fatal("The cluster does not report its id")
    return str(found.cluster_id)


def login_refused(connection: Connection, seconds: float = 3.0) -> bool:
    """Return whether a broker answers and refuses these credentials."""
    refused: list[KafkaError] = []
    with kafka_errors("creating the admin client"):
        client = AdminClient({**connection.librdkafka(), "error_cb": refused.append})  # type: ignore[dict-item]
    deadline = Deadline.after(seconds)
    while not deadline.expired:
        client.poll(0.1)
        if any(error.code() == KafkaError._AUTHENTICATION for error in refused):
            return True
    return False
