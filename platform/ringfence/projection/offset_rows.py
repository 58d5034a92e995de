"""Writes the offsets topic as rows. Keys are compared after parsing: `["connector", {source partition}]`.

Records are folded first (`Backlog`). Otherwise, a worker would write the row of each source partition again and again
if it has much to read, or if a connector commits many transactions a second, in the process that validates and starts
connectors. Only the newest record of each key counts, and the newest header with an attempt's committed records for
each minute.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from django.db.models import Count, Sum
from django.db.models.functions import Length

from ringfence.connectors.sdk.names import is_long
from ringfence.fencing.clock import epoch_ms
from ringfence.fencing.offsets import record_counts
from ringfence.fencing.offsets.record_counts import HEADER
from ringfence.fencing.offsets.source_offsets import connector_of, decode_value, parse_json
from ringfence.plain_queries import upsert
from ringfence.projection import record_totals
from ringfence.projection.models import SourceOffset, pack, partition_key
from ringfence.projection.record_totals import ReportedCounts
from ringfence.projection.records import Record, clean
from ringfence.projection.task_minutes import Minutes

MOST_ROWS: Final = 200_000
MOST_CHARACTERS: Final = 32 << 20


class TooManyOffsets(Exception):
    """There are more than a process reads at once. The message is for people."""


def count(connector: str) -> int:
    """Return how many source partitions have an offset."""
    return SourceOffset.objects.filter(connector=connector).count()


def read(connector: str) -> list[tuple[str, str]]:
    """Return source partitions and offsets as packed JSON, in order. Raises `TooManyOffsets`."""
    rows = SourceOffset.objects.filter(connector=connector)
    size = rows.aggregate(rows=Count("id"), characters=Sum(Length("partition") + Length("offset")))
    if size["rows"] > MOST_ROWS or (size["characters"] or 0) > MOST_CHARACTERS:
        raise TooManyOffsets(
            f"Connector {connector} has {size['rows']:,} source offsets of {size['characters']:,} characters: more "
            f"than are read at once ({MOST_ROWS:,}, {MOST_CHARACTERS:,}). Its page shows them a hundred at a time"
        )
    return list(rows.order_by("partition").values_list("partition", "offset"))


AT_ONCE: Final = 2_000
"""How many records to read at a time, so that other threads of the process can run in between."""
_MOST: Final = 50_000
_MOST_BYTES: Final = 16 << 20
_SECONDS: Final = 10.0
_PACE_SECONDS: Final = 0.25
"""The pause between writes of a connector's many small transactions, each of which would be a database transaction."""
_COUNTS: Final = b',"records"'


class Backlog:
    """Consecutive records that are not written yet. The caller keeps the position before them.

    They are taken in slices. Behind a slice, each key's newest record is written, or still to come.
    """

    def __init__(self) -> None:
        self._newest: dict[bytes | None, tuple[int, Record]] = {}
        self._counts: dict[tuple[bytes, bytes, int], tuple[int, Record]] = {}
        self._count = self._size = 0
        self._since = 0.0
        self._taken_at = float("-inf")
        self._folded: deque[Record] = deque()

    def __bool__(self) -> bool:
        return bool(self._newest or self._folded)

    @property
    def is_taken_in_part(self) -> bool:
        """Whether the last slice was not the last one of its records."""
        return bool(self._folded)

    def add(self, records: Iterable[Record], now: float) -> None:
        """Add the next records. now: monotonic, in seconds."""
        if not self._newest:
            self._since = now
        newest, counts, number = self._newest, self._counts, self._count - 1
        for number, record in enumerate(records, self._count):
            key = record.key
            newest[key] = number, record
            self._size += len(key or b"") + len(record.value or b"")
            if not record.headers or key is None:
                continue
            for name, value in record.headers:
                if name == HEADER and value is not None:
                    attempt, _, _ = value.partition(_COUNTS)
                    counts[key, attempt, record.timestamp_ms // 60_000] = number, record
        self._count = number + 1

    def is_due(self, now: float, *, more: bool) -> bool:
        """Return whether these records are to be written now.

        more: whether there is more to read at once. Then they wait until they are many or large, or for ten seconds.
        """
        if not self:
            return False
        if self._folded:
            return True
        if not more:
            return now - self._taken_at >= _PACE_SECONDS
        many = len(self._newest) + len(self._counts) >= _MOST or self._size >= _MOST_BYTES
        return many or now - self._since >= _SECONDS

    def take(self, limit: int, now: float) -> tuple[list[Record], dict[int, int]]:
        """Remove and return the next records that count, in order, at most `limit`, and the position in each of their
        partitions behind them.
        """
        if not self._folded:
            rest = dict([*self._counts.values(), *self._newest.values()])
            self._folded.extend(rest[number] for number in sorted(rest))
            self._newest, self._counts, self._size, self._taken_at = {}, {}, 0, now
        records = [self._folded.popleft() for _ in range(min(limit, len(self._folded)))]
        return records, {record.partition: record.offset + 1 for record in records}


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
        row = SourceOffset(
            connector=connector,
            partition=partition,
            partition_key=partition_key(partition),
            offset=pack(value),
            updated_ms=record.timestamp_ms,
        )
        newest[key] = None if value is None else row
    rows = [row for row in newest.values() if row is not None]
    upsert(rows, ("offset", "updated_ms"), ("connector", "partition_key"))
    _delete(key for key, offset in newest.items() if offset is None)
    history = Minutes()
    record_totals.add(all_told, history)
    history.write()
    if history.bad:
        record_totals.update_counts(epoch_ms(), history.bad)
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
