"""Records of one topic, as columns: no object and no call for each record. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ringfence.connectors.api.records import RawHeaders

_T = TypeVar("_T")
OnWritten = Callable[[int, int, int], None]
"""Called with a record's partition, offset (-1 if it is not known) and time in ms, once its leader has it."""
Record = tuple[str, bytes | None, bytes | None, int, int, RawHeaders | None]
"""Topic, value, key, partition (-1 for the partitioner's choice), time in ms (0 for now), headers."""


def total_bytes(column: Iterable[bytes | None]) -> int:
    """Return the size of all values of a column, of which None takes nothing."""
    return sum(map(len, filter(None, column)))


class RecordColumns:
    """Records of one topic in their order. partition: -1 for the partitioner's choice, by key.

    keys, timestamps (0 for now), headers: None, or one for each value. rows: where each record stands in what the
    records come from, if that is kept.
    """

    __slots__ = ("_value_bytes", "encoded", "headers", "keys", "partition", "rows", "timestamps", "topic", "values")

    def __init__(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None = None,
        timestamps: Sequence[int] | None = None,
        headers: Sequence[RawHeaders | None] | None = None,
        rows: Sequence[int] | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.values = values
        self.keys = keys
        self.timestamps = timestamps
        self.headers = headers
        self.rows = rows
        self._value_bytes = -1
        self.encoded: object = None
        """The batch that the records make, if it was made ahead (`Batching.encode_ahead`)."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def value_bytes(self) -> int:
        """The size of the values. It is asked for twice, and adding it up is a tenth of a small transaction's time."""
        if self._value_bytes < 0:
            self._value_bytes = total_bytes(self.values)
        return self._value_bytes

    def part(self, rows: slice) -> "RecordColumns":
        """Return some successive records."""
        return RecordColumns(
            self.topic,
            self.partition,
            self.values[rows],
            None if self.keys is None else self.keys[rows],
            None if self.timestamps is None else self.timestamps[rows],
            None if self.headers is None else self.headers[rows],
        )

    def pick(self, rows: Sequence[int], partition: int) -> "RecordColumns":
        """Return these records, for that partition."""
        return RecordColumns(
            self.topic,
            partition,
            [self.values[row] for row in rows],
            None if self.keys is None else [self.keys[row] for row in rows],
            None if self.timestamps is None else [self.timestamps[row] for row in rows],
            None if self.headers is None else [self.headers[row] for row in rows],
        )

    def records(self) -> list[Record]:
        """Return the records one by one."""
        count = len(self.values)
        return list(
            zip(
                [self.topic] * count,
                self.values,
                self.keys or [None] * count,
                [self.partition] * count,
                self.timestamps or [0] * count,
                self.headers or [None] * count,
                strict=True,
            )
        )


class GrowingColumns(RecordColumns):
    """The same, filled record by record."""

    __slots__ = ()

    values: list[bytes | None]
    keys: list[bytes | None] | None
    timestamps: list[int] | None
    headers: list[RawHeaders | None] | None
    rows: list[int] | None

    def __init__(self, topic: str, partition: int, *, keeps_rows: bool = False) -> None:
        super().__init__(topic, partition, [], rows=[] if keeps_rows else None)

    @property
    def value_bytes(self) -> int:
        return total_bytes(self.values)

    def add(self, value: bytes | None, key: bytes | None, timestamp: int, headers: RawHeaders | None) -> None:
        """Append a record. timestamp: 0 for now."""
        earlier = len(self.values)
        self.values.append(value)
        if self.keys is not None:
            self.keys.append(key)
        elif key is not None:
            self.keys = [*[None] * earlier, key]
        if self.timestamps is not None:
            self.timestamps.append(timestamp)
        elif timestamp:
            self.timestamps = [*[0] * earlier, timestamp]
        if self.headers is not None:
            self.headers.append(headers)
        elif headers:
            self.headers = [*[None] * earlier, headers]

    def extend(self, columns: RecordColumns) -> None:
        """Append many records."""
        earlier, count = len(self.values), len(columns)
        self.values += columns.values
        self.keys = _extend(self.keys, columns.keys, None, earlier, count)
        self.timestamps = _extend(self.timestamps, columns.timestamps, 0, earlier, count)
        self.headers = _extend(self.headers, columns.headers, None, earlier, count)


def _extend(own: list[_T] | None, more: Sequence[_T] | None, nothing: _T, earlier: int, count: int) -> list[_T] | None:
    """Append to a column in place. It begins with the first value: nothing stands for those before."""
    if own is None and more is None:
        return None
    column = [nothing] * earlier if own is None else own
    column += [nothing] * count if more is None else more
    return column
