"""Skips the changes of the first transaction that an earlier attempt, or Debezium, has delivered."""

from ringfence.connectors.builtin.postgres.debezium_offsets import SharedPosition
from ringfence.connectors.builtin.postgres.offsets import Position


class AlreadyRead:
    """Finds the changes to skip, from the position at which the stream starts."""

    def __init__(self, start: Position) -> None:
        self._skip = (start.xid, start.seq)
        self._debezium = SharedPosition(start.debezium) if start.debezium is not None else None

    def skips(self, xid: int, lsn: int, seq: int) -> bool:
        """Return whether the `seq`th change of a transaction was delivered. Raises `ConnectorError` if unknown."""
        if xid == self._skip[0] and seq <= self._skip[1]:
            return True
        return self._debezium is not None and self._debezium.skips(xid, lsn, seq)

    def may_skip(self, xid: int, changes: int) -> bool:
        """Return whether `skips` may be true for a change after the first `changes` of this transaction."""
        return (xid == self._skip[0] and changes < self._skip[1]) or self._debezium is not None

    def restart(self, xid: int, changes: int) -> None:
        """Skip the changes of a transaction that were read before the stream was restarted."""
        self._skip = (xid, changes)

    def end(self, xid: int) -> None:
        """Note that a transaction has ended."""
        if self._debezium is not None and self._debezium.is_over(xid):
            self._debezium = None
        if xid == self._skip[0]:
            self._skip = (0, 0)
