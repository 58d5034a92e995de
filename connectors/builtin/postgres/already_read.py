"""What of the first transaction was delivered by an earlier life, or by Debezium: it is not handed over again."""

from ringfence.connectors.builtin.postgres.debezium_offsets import SharedPosition
from ringfence.connectors.builtin.postgres.offsets import Position


class AlreadyRead:
    """From the position at which the stream begins."""

    def __init__(self, start: Position) -> None:
        self._skip = (start.xid, start.seq)
        self._debezium = SharedPosition(start.debezium) if start.debezium is not None else None

    def skips(self, xid: int, lsn: int, seq: int) -> bool:
        """Whether the `seq`th change of a transaction was delivered. Raises `ConnectorError` where nobody can tell."""
        if xid == self._skip[0] and seq <= self._skip[1]:
            return True
        return self._debezium is not None and self._debezium.skips(xid, lsn, seq)

    def may_skip(self, xid: int, changes: int) -> bool:
        """Return whether `skips` may be true for a change that follows so many of this transaction."""
        return (xid == self._skip[0] and changes < self._skip[1]) or self._debezium is not None

    def restart(self, xid: int, changes: int) -> None:
        """So many changes of a transaction were read, which the stream sends again."""
        self._skip = (xid, changes)

    def end(self, xid: int) -> None:
        """A transaction is over."""
        if self._debezium is not None and self._debezium.is_over(xid):
            self._debezium = None
        if xid == self._skip[0]:
            self._skip = (0, 0)
