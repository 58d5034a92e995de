"""The positions of a transaction's records in Kafka, for plugins with `wants_positions`."""

from collections.abc import Callable, Sequence
from functools import partial

from ringfence.connectors.api import RecordPosition
from ringfence.fencing.transactions.record_columns import OnWritten, RecordColumns


class Positions:
    """The positions of one transaction, in the order of its records."""

    def __init__(self) -> None:
        self._positions: list[RecordPosition | None] = []
        self._first = 0

    def begin_batch(self, count: int) -> None:
        """The next columns are of a batch with that many records."""
        self._first = len(self._positions)
        self._positions += [None] * count

    def noting(self, columns: RecordColumns) -> Sequence[OnWritten]:
        """Return what notes the position of each of these records."""
        assert columns.rows is not None
        positions = self._positions
        note: Callable[..., None] = partial(_note, positions)
        return [partial(note, self._first + row) for row in columns.rows]

    def take(self) -> list[RecordPosition | None]:
        """Return the transaction's positions, complete once its commit is known, and begin the next transaction."""
        positions, self._positions = self._positions, []
        return positions


def _note(positions: list[RecordPosition | None], row: int, partition: int, offset: int, time_ms: int) -> None:
    if offset >= 0:
        positions[row] = partition, offset, time_ms
