"""What a snapshot of the database sees: PostgreSQL's `pg_snapshot`, asked with the 32-bit ids of the stream."""

from typing import Final, NamedTuple

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.postgres.catalog import Query

_WRAP: Final = 1 << 32
_RUNNING: Final = """
SELECT transactionid::text FROM pg_locks
WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
"""
"""A transaction holds the lock on its own id until snapshots see what it did."""


def find_running(query: Query) -> set[int]:
    """The ids of transactions that have changed something and that no snapshot sees yet."""
    return {int(xid) for (xid,) in query(_RUNNING, ())}


class EarlierTransactions:
    """Those that were running when it was first asked `count`. No other joins them."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._left: set[int] | None = None

    def count(self) -> int:
        """How many have not ended. Raises psycopg's errors."""
        if self._left is None or self._left:
            now = find_running(self._query)
            self._left = now if self._left is None else self._left & now
        return len(self._left)


class Visibility(NamedTuple):
    """`xmin`: everything before it had ended; `xmax`: from it on nothing had; `running`: in between, had not.

    These are 64-bit ids of top-level transactions. The stream names changes by those, too, also where a subtransaction
    made them.
    """

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> "Visibility":
        """Of `pg_current_snapshot()::text`, which is `xmin:xmax:xid,xid`. Raises `ConnectorError`."""
        try:
            xmin, xmax, running = text.split(":")
            return cls(int(xmin), int(xmax), frozenset(map(int, running.split(","))) if running else frozenset())
        except ValueError as error:
            raise ConnectorError(
                f"{text!r} in a source offset is not a snapshot of PostgreSQL. Stop the connector and reset its "
                "offsets."
            ) from error

    def has(self, xid: int) -> bool:
        """Whether it sees what this transaction, which has committed, has changed. xid: its low 32 bits.

        The transaction ended near the snapshot, so of all ids with these bits the nearest one is meant.
        """
        full = self.xmax + (xid - self.xmax + _WRAP // 2) % _WRAP - _WRAP // 2
        return full < self.xmin or (full < self.xmax and full not in self.running)
