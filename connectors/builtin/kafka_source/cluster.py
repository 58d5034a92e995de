"""The Kafka clients of KafkaSource: a cluster's topics, and a consumer of assigned partitions."""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.kafka_source import settings as names
from ringfence.connectors.sdk import egress, properties, worker_limits
from ringfence.connectors.sdk.files import pin_client_files
from ringfence.connectors.sdk.guarded_connects import note_names, run_guarded
from ringfence.connectors.sdk.kafka_settings import oauth_tokens
from ringfence.connectors.sdk.kafka_settings.java_names import Role, Translation, merge, servers, translate
from ringfence.connectors.sdk.topic_durability import add_min_isr

logger = logging.getLogger(__name__)

SOURCE_PREFIX: Final = "source.cluster."
CONSUMER_PREFIX: Final = "source.consumer."
TARGET_PREFIX: Final = "target.cluster."

_SECONDS: Final = 10.0
_OWN: Final = frozenset(
    {names.SOURCE_ALIAS, names.TARGET_ALIAS, names.ISOLATION, names.GROUP_ID, names.SESSION_TIMEOUT_MS}
)
"""Settings of the connector whose names look like client settings."""
_QUEUE_KB: Final = "4096"
"""The read-ahead of the client: enough for its thread and ours to overlap, little enough for a small task."""
_QUEUE_RECORDS: Final = "20000"
"""The same for small records: each takes about 400 bytes more than its content."""
_LOGS: Final = {"log_level": "0"}
_WARNINGS: Final = "4"
_COORDINATOR_MOVES: Final = frozenset(
    {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
)
_AGAIN_SECONDS: Final = 0.2
_ATTEMPT_SECONDS: Final = 0.5
_MOST_ERRORS: Final = 50
_FINAL: Final = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}
)
"""After these, a client that has not reached a broker yet is unlikely to."""

Partitions = Sequence[tuple[str, int]]
_Client = TypeVar("_Client")


def _clients(config: Mapping[str, str], *prefixes: str) -> dict[str, str]:
    return {name: value for name, value in config.items() if name.startswith(prefixes) and name not in _OWN}


def source_settings(config: Mapping[str, str]) -> Translation:
    """Return librdkafka's settings for the source's clients, and errors by the connector's setting."""
    settings, unreadable = pin_client_files(_clients(config, SOURCE_PREFIX, CONSUMER_PREFIX))
    translation = merge(Role.CONSUMER, [(SOURCE_PREFIX, settings), (CONSUMER_PREFIX, settings)])
    translation.errors.update(unreadable)
    _log_in_at_home(translation, Role.CONSUMER, names.SOURCE_SERVERS)
    return _judge(translation, names.SOURCE_SERVERS)


def target_settings(config: Mapping[str, str]) -> Translation:
    """Return the same for the target's admin client. The worker's own Kafka cluster is usually the target, and needs no
    egress entry; it is the default.
    """
    home = worker_limits.current().home
    servers_of_target = (config.get(key, "").strip() for key in (names.TARGET_SERVERS, names.PRODUCER_SERVERS))
    where = next((each for each in servers_of_target if each), home)
    if not where:
        return Translation(
            errors={names.TARGET_SERVERS: "Set the cluster to write to: the worker's is not known here."}
        )
    settings, unreadable = pin_client_files({**_clients(config, TARGET_PREFIX), names.TARGET_SERVERS: where})
    translation = merge(Role.ADMIN, [(TARGET_PREFIX, settings)])
    translation.errors.update(unreadable)
    _log_in_at_home(translation, Role.ADMIN, names.TARGET_SERVERS)
    if home and servers(translation.settings.get("bootstrap.servers", "")) == servers(home):
        return translation
    return _judge(translation, names.TARGET_SERVERS)


def _log_in_at_home(translation: Translation, role: Role, key: str) -> None:
    """Add the login that `ringfence up` has for its own Kafka, if that is meant and no login is given.

    key: the setting of the addresses. The server proves that it knows the password, and is not told it.
    """
    limits = worker_limits.current()
    meant = _by_number(translation.settings.get("bootstrap.servers", ""))
    if not limits.home_login or not meant or not meant <= _by_number(limits.home):
        return
    if any(name.startswith(("security.", "sasl.", "ssl.", "https.")) for name in translation.settings):
        return
    try:
        login = properties.read(Path(limits.home_login).read_text(encoding="utf-8"))
    except OSError as error:
        translation.errors[key] = (
            f"The login of this Kafka cannot be read ({error.strerror}): start the platform again."
        )
        return
    translation.settings.update(translate(role, login).settings)


def _by_number(addresses: str) -> frozenset[str]:
    """Return the addresses, with one name for this machine."""
    return frozenset(address.replace("localhost:", "127.0.0.1:") for address in servers(addresses))


def _judge(translation: Translation, key: str) -> Translation:
    try:
        egress.check_servers(
            egress.Policy(worker_limits.current().egress), translation.settings.get("bootstrap.servers", "")
        )
    except egress.EgressDenied as refused:
        translation.errors[key] = f"{refused}."
    try:
        oauth_tokens.check_endpoint(translation.settings)
        if oauth_tokens.uses_tokens(translation.settings):
            oauth_tokens.source_of(translation.settings)
    except ValueError as error:
        translation.errors.setdefault(key, f"The login of this cluster cannot be used: {error}.")
    return translation


def validate(translation: Translation) -> dict[str, str]:
    """Return the settings. Raises `ConnectorError` with the first error."""
    if translation.errors:
        raise ConnectorError(next(iter(translation.errors.values())))
    return translation.settings


@dataclass(frozen=True, slots=True)
class TopicDefinition:
    """A topic's number of partitions, and its explicit settings."""

    partitions: int
    configs: Mapping[str, str]


class Access(StrEnum):
    """What a login may do with a topic."""

    READABLE = "readable"
    DENIED = "denied"
    MISSING = "missing"


class Cluster:
    """The topics of one cluster. Methods raise `KafkaException`; each call waits for at most `seconds`."""

    def __init__(self, settings: Mapping[str, str], seconds: float = _SECONDS, *, explains: bool = False) -> None:
        """explains: whether `await_topics` collects in `errors` why no broker is reached. Only for a short life."""
        self._seconds = seconds
        self._settings = dict(settings)
        self._id: str | None = None
        self.errors: deque[KafkaError] = deque(maxlen=_MOST_ERRORS)
        """What the client reports of its connections, the oldest first."""
        all_settings = {**oauth_tokens.for_librdkafka(_without_reading(settings)), **_LOGS}
        if explains:  # without polls the reports would pile up in the client
            all_settings |= {
                "error_cb": self.errors.append,
                "logger": _collect_warnings(self.errors),
                "log_level": _WARNINGS,
                # Less than `seconds`, so that a silent broker is reported.
                "socket.connection.setup.timeout.ms": str(int(seconds * 500)),
            }
        self._admin = _create_guarded(lambda: AdminClient(all_settings), settings)

    def await_topics(self) -> dict[str, int]:
        """Return `topics`. If no broker answers, `errors` says why; it is not waited for once that is certain."""
        ends_at = time.monotonic() + self._seconds
        while True:
            left = ends_at - time.monotonic()
            try:
                return self._list_topics(max(0.1, min(_ATTEMPT_SECONDS, left)))
            except KafkaException:
                self._admin.poll(0)
                if left <= _ATTEMPT_SECONDS or any(each.code() in _FINAL for each in self.errors):
                    raise

    def topics(self) -> dict[str, int]:
        """Return the number of partitions of every topic that may be described."""
        return self._list_topics(self._seconds)

    def _list_topics(self, seconds: float) -> dict[str, int]:
        metadata = self._admin.list_topics(timeout=seconds)
        self._id = str(metadata.cluster_id)
        note_names(str(broker.host) for broker in metadata.brokers.values())
        topics = metadata.topics
        return {name: len(topic.partitions) for name, topic in topics.items() if topic.error is None}

    def cluster_id(self) -> str:
        if self._id is None:
            self.topics()
        return str(self._id)

    def access(self, topics: Sequence[str]) -> dict[str, Access]:
        """Return what the login may do with each topic."""
        if not topics:
            return {}
        answers = self._admin.describe_topics(
            TopicCollection([*topics]), include_authorized_operations=True, request_timeout=self._seconds
        )
        return {topic: _access(answers[topic]) for topic in topics}

    def configs(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the explicit settings of each topic, without the brokers' defaults."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        if not resources:
            return {}
        answers = self._admin.describe_configs(resources, request_timeout=self._seconds)
        return {
            resource.name: {
                entry.name: str(entry.value)
                for entry in answer.result().values()
                if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value and entry.value is not None
            }
            for resource, answer in answers.items()
        }

    def create(self, topics: Mapping[str, TopicDefinition], replication_factor: int) -> None:
        """Create those topics that do not exist yet."""
        new = [
            NewTopic(
                name,
                definition.partitions,
                replication_factor,
                config=add_min_isr(definition.configs, replication_factor),
            )
            for name, definition in topics.items()
        ]
        for result in self._admin.create_topics(new, request_timeout=self._seconds).values() if new else ():
            _accept(result, KafkaError.TOPIC_ALREADY_EXISTS)

    def grow(self, partitions: Mapping[str, int]) -> None:
        """Increase the number of partitions."""
        more = [NewPartitions(name, count) for name, count in partitions.items()]
        for result in self._admin.create_partitions(more, request_timeout=self._seconds).values() if more else ():
            _accept(result, KafkaError.INVALID_PARTITIONS)

    def bounds(self, partitions: Partitions) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the first offset of each partition, and the one after its last."""
        firsts = self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        ends = self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {one: (firsts[one], ends[one]) for one in partitions}

    def group_offsets(self, group: str, partitions: Partitions) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a consumer group. Waits for transactions with pending offsets.

        AdminClient.list_consumer_group_offsets is not used: while the group's coordinator is loading, it crashes the
        process (SIGSEGV in librdkafka 2.16).
        """
        # Such a consumer requests stable offsets; it does not join the group, since it subscribes to nothing.
        reading = {"group.id": group, "isolation.level": names.READ_COMMITTED, "enable.auto.commit": False}
        settings = {**oauth_tokens.for_librdkafka(self._settings), **_LOGS, **reading}
        reader = _create_guarded(lambda: Consumer(settings), self._settings)
        try:
            offsets = self._read_offsets(reader, partitions)
        except KafkaException as error:
            # A principal without access to the group has never been a member of it.
            if error.args[0].code() in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.GROUP_ID_NOT_FOUND):
                return {}
            raise
        finally:
            reader.close()
        return {(one.topic, one.partition): one.offset for one in offsets if one.offset >= 0}

    def _read_offsets(self, reader: Consumer, partitions: Partitions) -> list[TopicPartition]:
        """Ask again while the group's coordinator changes, as it does on a new cluster and after each election."""
        ends_at = time.monotonic() + self._seconds
        while True:
            left = max(0.1, ends_at - time.monotonic())
            try:
                return reader.committed([TopicPartition(*one) for one in partitions], timeout=left)
            except KafkaException as error:
                if error.args[0].code() not in _COORDINATOR_MOVES or time.monotonic() >= ends_at:
                    raise
            time.sleep(_AGAIN_SECONDS)

    def _offsets(self, partitions: Partitions, spec: OffsetSpec) -> dict[tuple[str, int], int]:
        specs = {TopicPartition(topic, partition): spec for topic, partition in partitions}
        answers = self._admin.list_offsets(specs, request_timeout=self._seconds) if specs else {}
        offsets = {(one.topic, one.partition): int(answer.result().offset) for one, answer in answers.items()}
        if OFFSET_INVALID in offsets.values():  # librdkafka's answer for a broker that does not answer
            raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE, "a partition's leader does not answer"))
        return offsets


def _collect_warnings(errors: "deque[KafkaError]") -> logging.Logger:
    """Return a logger for a client: what it only logs is an error, too."""

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            errors.append(KafkaError(KafkaError._TRANSPORT, record.getMessage()))

    collecting = logging.Logger("clients of KafkaSource")
    collecting.addHandler(Collector())
    return collecting


def _accept(result: object, code: int) -> None:
    """Wait for a result. Ignores this error code: another client was faster."""
    try:
        result.result()  # type: ignore[attr-defined]
    except KafkaException as error:
        if error.args[0].code() != code:
            raise


def _access(answer: "Future[TopicDescription]") -> Access:
    try:
        operations = answer.result().authorized_operations
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return Access.DENIED
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return Access.MISSING
        raise
    return Access.READABLE if AclOperation.READ in (operations or ()) else Access.DENIED


def _without_reading(settings: Mapping[str, str]) -> dict[str, str]:
    """Remove consumer settings, which admin clients do not accept."""
    return {name: value for name, value in settings.items() if not name.startswith(("fetch.", "max.partition."))}


def consumer(settings: Mapping[str, str], isolation: str) -> Consumer:
    """Create a consumer outside any group: partitions are assigned, and offsets are stored elsewhere."""
    all_settings = {
        "queued.max.messages.kbytes": _QUEUE_KB,
        "queued.min.messages": _QUEUE_RECORDS,
        "fetch.queue.backoff.ms": "5",
        **oauth_tokens.for_librdkafka(settings),
        **_LOGS,
        "group.id": "ringfence-no-group",
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
    }
    return _create_guarded(lambda: Consumer(all_settings), settings)


def _create_guarded(make: Callable[[], _Client], settings: Mapping[str, str]) -> _Client:
    """Return the client that `make` creates. Except for the workers' own Kafka, it connects to allowed addresses only,
    whatever brokers the cluster names.
    """
    where, home = settings.get("bootstrap.servers", ""), worker_limits.current().home
    if home and servers(where) == servers(home):
        return make()
    return run_guarded(make, [where])


NOT_READ: Final = "{} is an internal topic of Kafka, of the workers or of a connector's source offsets"


class ReadableTopics:
    """Which of a task's topics may be read at the moment.

    The connector does not assign internal topics to its tasks, but a topic may become another connector's offsets
    topic. Raises `ConnectorError` if the configuration names an internal topic, and `KafkaException`.
    """

    def __init__(self, settings: Mapping[str, str], names: Iterable[str], topics: Iterable[str]) -> None:
        self._settings = settings
        self._names = {one.strip() for one in names}
        self._topics = set(topics)
        self._judged_by: worker_limits.WorkerLimits | None = None
        self._here: bool | None = None
        self.closed: frozenset[str] = frozenset()

    def check(self) -> frozenset[str]:
        """Return matching topics that may not be read any more since the last call; logs a warning."""
        limits = worker_limits.current()
        if limits is self._judged_by:
            return frozenset()
        closed = {topic for topic in self._topics if limits.internal(topic)}
        if closed and self._here is None:
            self._here = Cluster(self._settings).cluster_id() == limits.cluster_id
        closed = closed if self._here else set()
        for topic in sorted(closed & self._names):
            raise ConnectorError(f"{NOT_READ.format(topic)}: it is not read. Remove it from {names.TOPICS}")
        self._judged_by = limits
        new, self.closed = frozenset(closed - self.closed), self.closed | closed
        for topic in sorted(new):
            logger.warning("%s: its records are skipped", NOT_READ.format(topic))
        return new
