"""Reads a page of a topic's records: filtered by position, key, text and expression, decoded, without secrets.

The worker reads the bytes; a reader process decodes and filters them (`readers`).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from ringfence.engine.browsing.reader_calls import OpenReading
from ringfence.engine.browsing.readers import Readers
from ringfence.engine.browsing.topic_writers import Writer, check_topic, on_topic, secrets_of, writers_of
from ringfence.engine.plugins.call_server import encode_bytes
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.engine.questions import ReadRecords
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.open_transactions import HangingProber
from ringfence.fencing.kafka.topic_records import (
    Limits,
    Page,
    PageStart,
    PageStartKind,
    Tail,
    TailRecord,
    Test,
    read_page,
    tail,
)
from ringfence.fencing.leader.fence_targets import list_admin_access
from ringfence.fencing.records.writable_topics import TopicAccess
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

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
