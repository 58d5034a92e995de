"""Reads offsets of Debezium's PostgreSQL connector, to continue after what it has delivered.

As in our offsets, `lsn_commit` is the end of the last transaction that was delivered completely. Within the next one,
`txId`, Debezium's offset has a position instead of a count: `lsn_proc` is the position of the last delivered change.
Rows of one COPY can share a position; then the offset does not show how many of them were delivered.
"""

from typing import Final, NamedTuple

from ringfence.connectors.api import ConnectorError, SourceOffset

PROCESSED: Final = "lsn_proc"
_COMMITTED: Final = "lsn_commit"
_FINISH: Final = "Resume it in Kafka Connect until it streams, change a captured row twice, and stop it again."


class DeliveredPosition(NamedTuple):
    """The changes of the transaction `xid` up to the position `lsn` are in Kafka."""

    xid: int
    lsn: int


def read_delivered(offset: SourceOffset) -> DeliveredPosition:
    """Return what Debezium has delivered. Raises `ConnectorError` for an offset without a position in the stream."""
    if any(value is not None for key, value in offset.items() if key.startswith("incremental_snapshot_primary_key")):
        raise ConnectorError(f"Debezium is in the middle of an incremental snapshot. {_FINISH}")
    values = [offset.get(name) for name in (_COMMITTED, "txId", PROCESSED)]
    numbers = [each for each in values if isinstance(each, int) and not isinstance(each, bool) and each >= 0]
    if len(numbers) < len(values):
        raise ConnectorError(
            f"Debezium's offset {dict(offset)} is from a snapshot, or from the first transaction that it has read, and "
            f"does not contain the position to continue from. {_FINISH}"
        )
    return DeliveredPosition(numbers[1], numbers[2])


class SharedPosition:
    """Skips what Debezium has delivered, and detects that several changes share the last delivered position."""

    def __init__(self, delivered: DeliveredPosition) -> None:
        self._delivered = delivered
        self._before = 0

    def is_over(self, xid: int) -> bool:
        """Return whether `xid` is the transaction in which Debezium stopped: after its end, nothing is skipped."""
        return xid == self._delivered.xid

    def skips(self, xid: int, lsn: int, seq: int) -> bool:
        """Return whether Debezium has delivered this change, the `seq`th of its transaction.

        Raises `ConnectorError` if changes share the last delivered position.
        """
        if xid != self._delivered.xid or lsn > self._delivered.lsn:
            return False
        if lsn == self._before == self._delivered.lsn:
            raise ConnectorError(
                f"Debezium stopped among rows of one COPY that share the position {lsn} in transaction {xid}, and its "
                "offset does not show how many of them it has delivered. If it had delivered all of them before it was "
                "stopped (the source was idle), let it deliver one more change and stop it again. Otherwise find its "
                f"last record of that transaction, and alter the offset to lsn_commit, 'xid': {xid}, and 'seq': the "
                f"number of the transaction's delivered changes ({seq - 2} precede the COPY's rows)."
            )
        self._before = lsn
        return True
