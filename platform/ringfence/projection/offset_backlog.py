"""Folds records of the offsets topic before they are written as rows. Pure.

Otherwise, a worker would write the row of each source partition again and again if it has much to read, or if a
connector commits many transactions a second, in the process that validates and starts connectors. Only the newest
record of each key counts, and the newest header with an attempt's committed records for each minute: `offset_rows`
makes the same rows from these.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from ringfence.fencing.offsets.record_counts import HEADER
from ringfence.projection.records import Record

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
