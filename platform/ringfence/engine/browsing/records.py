"""Reads a page of a topic's records: filtered by position, key, text and expression, decoded, without secrets.

The worker reads the bytes; a reader process decodes and filters them (`readers`). How to reach the topic, and which
secrets to hide, the connectors that write to it say: a question contains them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ringfence.connectors.config_providers import ConfigProviders, ResolvedConfig
from ringfence.engine.browsing.reader_calls import OpenReading
from ringfence.engine.browsing.readers import Readers
from ringfence.engine.plugins.call_server import encode_bytes
from ringfence.engine.plugins.secret_removal import Scrubber
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.questions import DescribeTopics, ReadRecords, TopicPlace
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Invalid
from ringfence.fencing.fetching.topic_pages import Page, PageStart, PageStartKind, read_page
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.open_transactions import HangingProber
from ringfence.fencing.kafka.topic_admin import topic_infos, topic_names
from ringfence.fencing.kafka.topic_records import Limits, Tail, TailRecord, Test, tail
from ringfence.fencing.leader.fence_targets import list_admin_access
from ringfence.fencing.records.writable_topics import TopicAccess
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

MOST_DESCRIBED: Final = 200


def describe_topics(
    request: DescribeTopics, worker: WorkerConfig, rules: TopicRules, limit: Deadline
) -> dict[str, object]:
    """Describe these topics; without `names`, return all names and which of them are internal. Raises `Refusal`."""
    connection, access = worker.connection("ringfence-topics"), rules.access("")
    try:
        if request.names is None:
            names = topic_names(connection, limit)
            return {"names": names, "internal": {name: what for name in names if (what := access.internal(name))}}
        topics = topic_infos(connection, request.names[:MOST_DESCRIBED], limit)
    except FencingError as error:
        raise Refusal(500, f"The topics of the workers' cluster cannot be listed: {error}") from error
    return {
        "topics": [
            {
                "name": each.name,
                "partitions": each.partitions,
                "replicas": each.replicas,
                "offsets": each.offsets,
                "newest_ms": each.newest_ms,
                "settings": each.settings,
                "internal": access.internal(each.name),
            }
            for each in topics
        ]
    }


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Writer:
    """A connector. secret: the names of its secret settings; topics: all that it has written to."""

    name: str
    resolution: ResolvedConfig = field(repr=False)
    secret: Sequence[str]
    topics: Sequence[str]

    @property
    def config(self) -> Mapping[str, str]:
        return self.resolution.config

    def secrets(self) -> list[str]:
        """The values that must not be shown."""
        return [
            *filter(None, (self.config.get(key, "") for key in self.secret)),
            *self.resolution.secret_values.values(),
        ]


def writers_of(place: TopicPlace, worker: WorkerConfig) -> list[Writer]:
    """Return the writers that the web process has sent."""
    providers = ConfigProviders(worker.settings)
    writers = []
    for each in place.writers:
        config, secret, topics = (each.get(key) for key in ("config", "secret", "topics"))
        if isinstance(config, Mapping) and isinstance(secret, list) and isinstance(topics, list):
            settings = {str(key): str(value) for key, value in config.items()}
            writers.append(Writer(str(each.get("name")), providers.attempt(settings)[0], secret, topics))
    return writers


def secrets_of(writers: Sequence[Writer]) -> set[str]:
    """Return the values that must not be shown of a topic with these writers."""
    return {secret for each in writers for secret in each.secrets()}


def scrubber_of(writers: Sequence[Writer]) -> Scrubber:
    return Scrubber(secrets_of(writers))


def check_topic(place: TopicPlace, worker: WorkerConfig, rules: TopicRules) -> None:
    """Raise `Refusal` for an internal topic, unless an administrator asks; for the config topic in any case."""
    what = rules.access("").internal(place.topic)
    if not what:
        return
    if place.topic == worker.config_topic:
        text = "it contains configurations with their secrets. Look at the connectors' Pipeline tabs"
        raise Refusal(403, f"{place.topic} is {what}, which is never shown: {text}")
    if not place.internal:
        raise Refusal(403, f"{place.topic} is {what}: its records are shown to administrators only")


def on_topic(
    place: TopicPlace, worker: WorkerConfig, writers: Sequence[Writer], ask: Callable[[Connection], Answer]
) -> Answer:
    """Return the answer with the first credentials that work: those of the connector in `via`, then the worker's.

    Raises `Refusal`.
    """
    base = worker.connection("ringfence-topics")
    matches = [each for each in writers if each.name == place.via]
    try:
        accesses = list_admin_access(None, matches[0].config, base, worker.settings) if matches else None
    except FencingError as error:
        hide = matches[0].resolution.hide
        raise Refusal(400, hide(f"The cluster of topic {place.topic} cannot be reached: {error}")) from error
    connections = (
        [(access.whose, access.connection) for access in accesses] if accesses else [("the worker's credentials", base)]
    )
    troubles = []
    for whose, connection in connections:
        try:
            return ask(connection)
        except Invalid as error:
            raise Refusal(400, f"{error}.") from error
        except FencingError as error:
            if error.code == "UNKNOWN_TOPIC_OR_PART":
                raise Refusal(404, f"There is no topic {place.topic}") from error
            troubles.append(f"with {whose}: {error}")
    message = f"Topic {place.topic} cannot be read {'; '.join(troubles)}"
    raise Refusal(500, matches[0].resolution.hide(message) if matches else message)


MOST_RECORDS: Final = 200
_READ_BYTES: Final = 256 * 1024
_MOST_BYTES: Final = 64 * 1024 * 1024
_URL: Final = "schema.registry.url"


def read_records(
    request: ReadRecords, worker: WorkerConfig, rules: TopicRules, readers: Readers, limit: Deadline
) -> dict[str, object]:
    """Return the page as JSON. Raises `Refusal`."""
    check_topic(request.place, worker, rules)
    writers = writers_of(request.place, worker)
    reading = _reading(request, worker, writers)
    place = _place(request.start)
    most = max(1, min(request.records, MOST_RECORDS))

    def ask(connection: Connection) -> dict[str, object]:
        with _filter(readers, reading, limit) as test:
            page = read_page(
                connection,
                request.place.topic,
                place,
                limit,
                Limits(most, _READ_BYTES, bytes=_MOST_BYTES, test=test, headers=50),
                partitions=request.partitions,
                committed_only=request.committed_only,
            )
        displays = readers.show(page.records, reading, limit)
        return _as_json(page, displays, _holders(connection, page, limit))

    return on_topic(request.place, worker, writers, ask)


@contextmanager
def _filter(readers: Readers, reading: OpenReading, limit: Deadline) -> Iterator[Test | None]:
    """Return the test for records; None if all are wanted. Raises `Refusal`."""
    if reading.exact_key is None and not reading.contains and not reading.where.strip():
        yield None
        return
    with readers.open(reading, limit) as reader:
        yield reader.select


def _place(start: Mapping[str, object]) -> PageStart:
    kind, value, cursor = (start.get(key) for key in ("from", "value", "cursor"))
    if (
        kind not in list(PageStartKind)
        or not isinstance(value, int)
        or not (cursor is None or isinstance(cursor, Mapping))
    ):
        raise Refusal(400, "The place to begin at cannot be read. Web process and worker may be of different versions")
    return PageStart(
        PageStartKind(str(kind)), value, None if cursor is None else {int(key): int(at) for key, at in cursor.items()}
    )


def _reading(request: ReadRecords, worker: WorkerConfig, writers: Sequence[Writer]) -> OpenReading:
    first = next((each for each in writers if each.name == request.place.via), writers[0] if writers else None)
    config = first.config if first else {}
    return OpenReading(
        _registry_settings(request.registry, "key", config, worker),
        _registry_settings(request.registry, "value", config, worker),
        bool(request.registry),
        sorted(secrets_of(writers)),
        request.key,
        request.contains,
        request.where,
    )


def _registry_settings(
    registry_url: str, half: str, config: Mapping[str, str], worker: WorkerConfig
) -> Mapping[str, str]:
    """Return a converter's settings with the named registry, else those of the connector, else the worker's; {} if none
    names a registry.
    """
    if registry_url:
        return {_URL: registry_url}
    prefix = f"{half}.converter."
    for properties in (config, worker.settings):
        settings = {key.removeprefix(prefix): value for key, value in properties.items() if key.startswith(prefix)}
        if settings.get(_URL):
            return settings
    return {}


def _holders(connection: Connection, page: Page, limit: Deadline) -> list[dict[str, object]]:
    """Return the open transactions on the page's partitions, with their owners as far as a coordinator knows them."""
    producers = {producer for first_offsets in page.holders.values() for producer in first_offsets}
    owners = {}
    if producers:
        try:
            with HangingProber(connection) as prober:
                owners = prober.owners(producers, limit)
        except FencingError:
            pass  # without their owners: the producer ids are known anyway
    return [
        {
            "partition": partition,
            "producer_id": producer,
            "first_offset": first,
            "transactional_id": owners[producer].transactional_id if producer in owners else "",
            "since_ms": owners[producer].started_ms if producer in owners else -1,
        }
        for partition, first_offsets in sorted(page.holders.items())
        for producer, first in sorted(first_offsets.items(), key=lambda one: one[1])
    ]


def _as_json(
    page: Page, displays: Sequence[Mapping[str, object]], holders: Sequence[Mapping[str, object]]
) -> dict[str, object]:
    return {
        "records": [_record(*each) for each in zip(page.records, displays, strict=True)],
        "partitions": [
            {
                "partition": each.partition,
                "first": each.first,
                "stable": each.stable,
                "end": each.end,
                "start": each.start,
                "until": each.until,
            }
            for each in page.ranges
        ],
        "partition_count": page.partitions,
        "cursor": {str(number): offset for number, offset in page.cursor.items()},
        "more": page.more,
        "complete": page.complete,
        "scanned": page.scanned,
        "open_transactions": list(holders),
    }


def _record(record: TailRecord, displays: Mapping[str, object]) -> dict[str, object]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "seen": record.visibility.value,
        **displays,
    }


def last_records(
    topic: str,
    config: Mapping[str, str],
    worker: WorkerConfig,
    access: TopicAccess,
    limit: Deadline,
    *,
    committed_only: bool,
) -> dict[str, object]:
    """Return the records as JSON, read from the connector's cluster with the first credentials that work.

    Raises `Refusal`, always for an internal topic: it may contain secrets of others.
    """
    if what := access.internal(topic):
        raise Refusal(403, f"{topic} is {what}: its records are not shown")
    try:
        accesses = list_admin_access(None, config, worker.connection("ringfence-topic-preview"), worker.settings)
    except FencingError as error:
        raise Refusal(400, f"The cluster of topic {topic} cannot be reached: {error}") from error
    troubles = []
    for admin in accesses:
        try:
            return _tail_as_json(tail(admin.connection, topic, limit, Limits(), committed_only=committed_only))
        except FencingError as error:
            troubles.append(f"with {admin.whose}: {error}")
    raise Refusal(500, f"Topic {topic} cannot be read {'; '.join(troubles)}")


def _tail_as_json(tail: Tail) -> dict[str, object]:
    return {
        "records": [
            {
                "partition": each.partition,
                "offset": each.offset,
                "timestamp_ms": each.timestamp_ms,
                "seen": each.visibility.value,
                "key": encode_bytes(each.key),
                "key_size": each.key_size,
                "value": encode_bytes(each.value),
                "value_size": each.value_size,
                "headers": [[name, encode_bytes(value), size] for name, value, size in each.headers],
            }
            for each in tail.records
        ],
        "partitions": [
            {"partition": each.partition, "first": each.first, "stable": each.stable, "end": each.end}
            for each in tail.stretches
        ],
        "partition_count": tail.partitions,
        "complete": tail.complete,
    }
