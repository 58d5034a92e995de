"""Offsets of Debezium's connector for PostgreSQL, to go on behind what it has delivered.

Its `lsn_commit` is the end of the last transaction that is wholly delivered, as ours is. Within the next one, `txId`,
it counts by positions: `lsn_proc` is that of the last change that was delivered, and the server sends each change with
its position. Several rows of one COPY share a position, so behind such a row nobody can tell where Debezium stands.
"""

from typing import Final, NamedTuple

from ringfence.connectors.api import ConnectorError, SourceOffset

PROCESSED: Final = "lsn_proc"
_COMMITTED: Final = "lsn_commit"
_FINISH: Final = "Resume it in Kafka Connect until it streams, change rows that it reads twice, and stop it again."


class Delivered(NamedTuple):
    """Of the transaction `xid`, the changes up to this position are in Kafka."""

    xid: int
    lsn: int


def read_delivered(offset: SourceOffset) -> Delivered:
    """Raises `ConnectorError` for an offset that does not say where the stream goes on."""
    if any(value is not None for key, value in offset.items() if key.startswith("incremental_snapshot_primary_key")):
        raise ConnectorError(f"Debezium is in the middle of an incremental snapshot. {_FINISH}")
    found = [offset.get(name) for name in (_COMMITTED, "txId", PROCESSED)]
    numbers = [each for each in found if isinstance(each, int) and not isinstance(each, bool) and each >= 0]
    if len(numbers) < len(found):
        raise ConnectorError(
            f"Debezium's offset {dict(offset)} is of a snapshot, or of the first transaction that it has read, and "
            f"does not say where the stream goes on. {_FINISH}"
        )
    return Delivered(numbers[1], numbers[2])


class SharedPosition:
    """Finds the position that `read_delivered` names on more than one change."""

    def __init__(self, delivered: Delivered) -> None:
        self._delivered = delivered
        self._before = 0

    def is_over(self, xid: int) -> bool:
        """The transaction that Debezium had begun has ended."""
        return xid == self._delivered.xid

    def skips(self, xid: int, lsn: int, seq: int) -> bool:
        """Whether Debezium has delivered this change, the `seq`th of its transaction. Raises `ConnectorError`."""
        if xid != self._delivered.xid or lsn > self._delivered.lsn:
            return False
        if lsn == self._before == self._delivered.lsn:
            raise ConnectorError(
                f"Debezium has stopped within rows of one COPY that share the position {lsn}, transaction {xid}, and "
                "its offset does not tell how many of them it has delivered. If it had delivered all before it was "
                "stopped (the source was quiet), let it deliver one more change and stop it again. Else look for its "
                f"last record of that transaction, and alter the offset to lsn_commit, 'xid': {xid}, and as 'seq' how "
                f"many changes of the transaction are delivered ({seq - 2} are before the COPY's rows)."
            )
        self._before = lsn
        return True
