"""Writes the offsets topic as rows. Keys are compared after parsing: `["connector", {source partition}]`."""

import time
from collections.abc import Iterable, Sequence
from typing import Final

from ringfence.connectors.sdk.names import is_long
from ringfence.fencing.offsets import record_counts
from ringfence.fencing.offsets.source_offsets import connector_of, decode_value, parse_json
from ringfence.projection import bad_records, record_totals
from ringfence.projection.clean_text import clean
from ringfence.projection.models import SourceOffset, pack
from ringfence.projection.models.connectors import partition_key
from ringfence.projection.record_totals import ReportedCounts
from ringfence.projection.records import Record
from ringfence.projection.task_minutes import Minutes

MOST_BYTES: Final = 1 << 20
"""Of a key, and of a value: what a topic accepts by default. A larger one is not shown."""


def parse_key(key: bytes | None) -> tuple[str, str] | None:
    """Return connector and packed source partition; None for a key of another form, which Kafka Connect also skips,
    and for a name that no connector can have.
    """
    connector = connector_of(key)
    if key is None or connector is None or is_long(connector) or len(key) > MOST_BYTES:
        return None
    match parse_json(key):
        case [str(name), dict(partition)] if name == connector:
            return clean(connector), pack(partition)
        case [str(name), None] if name == connector:
            return clean(connector), "null"
        case _:
            return None


def write(records: Sequence[Record]) -> set[str]:
    """Write the newest offset of each source partition; a tombstone deletes, and so does what cannot be shown. Inside
    the transaction.

    Their headers have the counts of records that were committed with them.
    """
    all_told: list[ReportedCounts] = []
    newest: dict[tuple[str, str], SourceOffset | None] = {}
    for record in records:
        key = parse_key(record.key)
        if key is None:
            continue
        if (report := record_counts.decode(record.headers)) is not None:
            at_ms = record.timestamp_ms
            all_told.append(ReportedCounts(key[0], *report.key, report.counts._asdict(), at_ms, at_ms, in_offsets=True))
        value = decode_value(record.value) if len(record.value or b"") <= MOST_BYTES else None
        connector, partition = key
        row = SourceOffset(connector=connector, partition=partition, offset=pack(value), updated_ms=record.timestamp_ms)
        newest[key] = None if value is None else row
    SourceOffset.objects.bulk_create(
        [row for row in newest.values() if row is not None],
        update_conflicts=True,
        update_fields=("offset", "updated_ms"),
        unique_fields=["connector", "partition_key"],
        batch_size=200,
    )
    _delete(key for key, offset in newest.items() if offset is None)
    history = Minutes()
    record_totals.add(all_told, history)
    history.write()
    if history.bad:
        bad_records.update_counts(int(time.time() * 1000), history.bad)
    return {connector for connector, _ in newest}


def _delete(keys: Iterable[tuple[str, str]]) -> None:
    digests: dict[str, list[str]] = {}
    for connector, partition in keys:
        digests.setdefault(connector, []).append(partition_key(partition))
    for connector, partitions in digests.items():
        SourceOffset.objects.filter(connector=connector, partition_key__in=partitions).delete()


def forget() -> None:
    """Delete the rows from the offsets topic, because the topic was created again."""
    SourceOffset.objects.all().delete()
