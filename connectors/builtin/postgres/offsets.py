"""The source offset of the stream: the position to continue from, the server that it belongs to, what to skip there.

`{"lsn_commit": 26678520}` is the end of the last transaction that is completely in Kafka, `system_id` identifies the
database cluster, and `timeline` the timeline of its write-ahead log. If a transaction was split, `xid` is its id, and
`seq` the number of its changes that are in Kafka: a transaction is decoded in the same order each time. `txId` and
`ts_usec` are for information only, as in Debezium.

Offsets of Debezium's connector are read, too, to continue after what it has delivered. There, `lsn_commit` is the same.
Within the next transaction, `txId`, Debezium's offset has a position instead of a count: `lsn_proc` is the position of
the last delivered change. Rows of one COPY can share a position; then the offset does not show how many of them were
delivered.

Positions in the write-ahead log (LSNs) are integers in offsets, and `16/B374D848` in SQL and messages.
"""

from typing import Final, NamedTuple

from ringfence.connectors.api import ConnectorError, SourceOffset

LSN: Final = "lsn_commit"
XID: Final = "xid"
SEQ: Final = "seq"
SYSTEM: Final = "system_id"
TIMELINE: Final = "timeline"
PROCESSED: Final = "lsn_proc"
"""In Debezium's offsets only."""


def lsn_text(number: int) -> str:
    """Format a position as the server does."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """Parse a position that the server has written."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


_FINISH: Final = "Resume it in Kafka Connect until it streams, change a captured row twice, and stop it again."


class DeliveredPosition(NamedTuple):
    """The changes of the transaction `xid` up to the position `lsn` are in Kafka."""

    xid: int
    lsn: int


def read_delivered(offset: SourceOffset) -> DeliveredPosition:
    """Return what Debezium has delivered. Raises `ConnectorError` for an offset without a position in the stream."""
    if any(value is not None for key, value in offset.items() if key.startswith("incremental_snapshot_primary_key")):
        raise ConnectorError(f"Debezium is in the middle of an incremental snapshot. {_FINISH}")
    values = [offset.get(name) for name in (LSN, "txId", PROCESSED)]
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


class Origin(NamedTuple):
    """The database cluster and the timeline that positions belong to. timeline: None if unknown, as on a standby."""

    system: str
    timeline: int | None = None


class Position(NamedTuple):
    """A position in the stream.

    xid, seq: of a split transaction, the first one after `lsn`; 0 if the position is between two transactions.
    debezium: what Debezium has delivered, if the offset is Debezium's. timeline: None if unknown.
    """

    lsn: int
    xid: int = 0
    seq: int = 0
    system: str | None = None
    debezium: DeliveredPosition | None = None
    timeline: int | None = None


def position_of(offset: SourceOffset) -> Position:
    """Return the position of an offset. Raises `ConnectorError` if it is not an offset of this connector."""
    debezium = read_delivered(offset) if PROCESSED in offset else None
    numbers = [offset.get(LSN), offset.get(XID, 0), offset.get(SEQ, 0)]
    if any(not isinstance(number, int) or isinstance(number, bool) or number < 0 for number in numbers):
        raise ConnectorError(
            f"The offset {dict(offset)} must have a position in the write-ahead log under {LSN!r}, as an integer. "
            "Stop the connector, and alter or reset its offsets."
        )
    system = offset.get(SYSTEM)
    lsn, xid, seq = (number for number in numbers if isinstance(number, int))
    timeline = offset.get(TIMELINE)
    return Position(
        *(lsn, xid, seq),
        system if isinstance(system, str) else None,
        debezium,
        timeline if isinstance(timeline, int) else None,
    )


def start_at(lsn: int, origin: Origin) -> SourceOffset:
    """Return the offset of a position before which nothing was read."""
    timeline = {} if origin.timeline is None else {TIMELINE: origin.timeline}
    return {LSN: lsn, SYSTEM: origin.system, **timeline}


def between(lsn: int, origin: Origin, xid: int, time_us: int) -> SourceOffset:
    """Return the offset at the end of a transaction. time_us: its commit, microseconds since 1970."""
    return {**start_at(lsn, origin), "txId": xid, "ts_usec": time_us}


def within(start: SourceOffset, xid: int, seq: int) -> SourceOffset:
    """Return the offset after `seq` changes of the transaction that begins at the offset `start`."""
    base = {name: start[name] for name in (LSN, SYSTEM, TIMELINE) if name in start}
    return {**base, XID: xid, SEQ: seq}


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
