"""Tests whether a database snapshot, PostgreSQL's `pg_snapshot`, sees a transaction of the stream, by its 32-bit id."""

from typing import Final, NamedTuple

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.postgres.catalog import Query

_WRAP: Final = 1 << 32
_RUNNING: Final = """
SELECT transactionid::text FROM pg_locks
WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
"""
"""A transaction holds the lock on its own id until its changes are visible to snapshots."""


def find_running(query: Query) -> set[int]:
    """Return the ids of transactions that have changed something, and that no snapshot sees yet."""
    return {int(xid) for (xid,) in query(_RUNNING, ())}


class EarlierTransactions:
    """The transactions that were running at the first call of `count`. Later ones are not added."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._left: set[int] | None = None

    def count(self) -> int:
        """Return how many have not ended. Raises psycopg's errors."""
        if self._left is None or self._left:
            now = find_running(self._query)
            self._left = now if self._left is None else self._left & now
        return len(self._left)


class Visibility(NamedTuple):
    """A `pg_snapshot`. All transactions before `xmin` had ended, and none from `xmax`; between them, `running` had not.

    The ids are 64-bit ids of top-level transactions. The stream has these ids, too, even for changes in a
    subtransaction.
    """

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> "Visibility":
        """Parse `pg_current_snapshot()::text`, which is `xmin:xmax:xid,xid`. Raises `ConnectorError`."""
        try:
            xmin, xmax, running = text.split(":")
            return cls(int(xmin), int(xmax), frozenset(map(int, running.split(","))) if running else frozenset())
        except ValueError as error:
            raise ConnectorError(
                f"{text!r} in a source offset is not a PostgreSQL snapshot. Stop the connector and reset its offsets."
            ) from error

    def has(self, xid: int) -> bool:
        """Return whether the snapshot sees a committed transaction. xid: the low 32 bits of its id.

        The transaction ended near the snapshot, so `xid` means the nearest id with these bits.
        """
        full = self.xmax + (xid - self.xmax + _WRAP // 2) % _WRAP - _WRAP // 2
        return full < self.xmin or (full < self.xmax and full not in self.running)
