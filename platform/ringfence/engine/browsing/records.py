"""Reads a page of a topic's records: filtered by position, key, text and expression, decoded, without secrets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ringfence.connectors.api import ConfigException, ConnectorError
from ringfence.connectors.converters.registry.reading import SchemaReader
from ringfence.engine.browsing import expression
from ringfence.engine.browsing.topic_writers import Writer, check_topic, on_topic, scrubber_of, writers_of
from ringfence.engine.browsing.value_decoding import DecodedValue, Decoder
from ringfence.engine.plugins.secret_removal import Scrubber
from ringfence.engine.preflight.topic_rules import TopicRules
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.hanging_transactions import HangingProber
from ringfence.fencing.kafka.record_pages import Page, PageStart, PageStartKind, read_page
from ringfence.fencing.kafka.topic_tail import Limits, MetRecord, TailRecord
from ringfence.requests.refusal import Refusal
from ringfence.requests.topic_questions import ReadRecords
from ringfence.worker_config import WorkerConfig

MOST_RECORDS: Final = 200
_READ_BYTES: Final = 256 * 1024
_MOST_BYTES: Final = 64 * 1024 * 1024
_URL: Final = "schema.registry.url"


@dataclass(frozen=True, slots=True)
class _Decoders:
    key: Decoder
    value: Decoder
    header: Decoder


def read_records(request: ReadRecords, worker: WorkerConfig, rules: TopicRules, limit: Deadline) -> dict[str, object]:
    """Return the page as JSON. Raises `Refusal`."""
    check_topic(request.place, worker, rules)
    writers = writers_of(request.place, worker)
    decoders = _decoders(request, worker, writers)
    test = _test(request, decoders)
    place = _place(request.start)
    limits = Limits(max(1, min(request.records, MOST_RECORDS)), _READ_BYTES, bytes=_MOST_BYTES, test=test, headers=50)

    def ask(connection: Connection) -> dict[str, object]:
        page = read_page(
            connection,
            request.place.topic,
            place,
            limit,
            limits,
            partitions=request.partitions,
            committed_only=request.committed_only,
        )
        return _as_json(page, decoders, _holders(connection, page, limit))

    return on_topic(request.place, worker, writers, ask)


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


def _decoders(request: ReadRecords, worker: WorkerConfig, writers: Sequence[Writer]) -> _Decoders:
    scrubber = scrubber_of(writers)
    first = next((each for each in writers if each.name == request.place.via), writers[0] if writers else None)
    config = first.config if first else {}
    return _Decoders(
        _decoder(request.registry, "key", config, worker, scrubber),
        _decoder(request.registry, "value", config, worker, scrubber),
        Decoder(None, scrubber),
    )


def _decoder(
    registry_url: str, half: str, config: Mapping[str, str], worker: WorkerConfig, scrubber: Scrubber
) -> Decoder:
    """Return a decoder with the named registry, else with the one of the connector's converter, else the worker's."""
    prefix = f"{half}.converter."
    settings: dict[str, str] = {}
    for properties in (config, worker.settings):
        settings = {key.removeprefix(prefix): value for key, value in properties.items() if key.startswith(prefix)}
        if settings.get(_URL):
            break
    if registry_url:
        settings = {_URL: registry_url}
    if not settings.get(_URL):
        return Decoder(None, scrubber, "No Schema Registry is known for this topic: name one.")
    try:
        return Decoder(SchemaReader(settings), scrubber)
    except (ConfigException, ConnectorError) as error:
        if registry_url:
            raise Refusal(400, f"registry: {error}") from error
        return Decoder(None, scrubber, scrubber.text(str(error)))


def _test(request: ReadRecords, decoders: _Decoders) -> Any:
    """Return the filter for records; None if all are wanted."""
    try:
        condition = expression.parse(request.where) if request.where.strip() else None
    except expression.Wrong as error:
        raise Refusal(400, f"where: {error}.") from error
    if condition is None and not request.contains and request.key is None:
        return None
    needle, key = request.contains.casefold(), request.key
    deep = condition is not None

    def test(record: MetRecord) -> bool:
        decoded_key = decoders.key.decode(record.key)
        if key is not None and not _is_key(decoded_key, key):
            return False
        if not needle and not deep:
            return True
        value = decoders.value.decode(record.value)
        if needle and not any(needle in one.casefold() for one in _texts(record, decoded_key, value, decoders.header)):
            return False
        return condition is None or condition(_names(record, decoded_key, value, decoders.header))

    return test


def _is_key(value: DecodedValue, key: str) -> bool:
    return key == value.value if isinstance(value.value, str) else key == value.text or key == str(value.value)


def _texts(record: MetRecord, key: DecodedValue, value: DecodedValue, decoder: Decoder) -> list[str]:
    """Return the texts in which a search looks."""
    headers = [text for name, data in record.headers for text in (name, decoder.decode(data).text)]
    return [key.text, value.text, *headers]


def _names(record: MetRecord, key: DecodedValue, value: DecodedValue, decoder: Decoder) -> dict[str, object]:
    return {
        "key": key.value,
        "value": value.value,
        "headers": {name: decoder.decode(data).value for name, data in record.headers},
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }


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


def _as_json(page: Page, decoders: _Decoders, holders: Sequence[Mapping[str, object]]) -> dict[str, object]:
    return {
        "records": [_record(each, decoders) for each in page.records],
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


def _record(record: TailRecord, decoders: _Decoders) -> dict[str, object]:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "seen": record.visibility.value,
        "key": _show(decoders.key, record.key, record.key_size),
        "value": _show(decoders.value, record.value, record.value_size),
        "headers": [{"name": name, **_show(decoders.header, value, size)} for name, value, size in record.headers],
    }


def _show(decoder: Decoder, data: bytes | None, size: int) -> dict[str, object]:
    return decoder.decode(data).as_json(size, -1 if data is None else len(data))
