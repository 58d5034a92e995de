"""The source offset of the stream: the position to continue from, and the server that it belongs to.

`{"lsn_commit": 26678520}` is the end of the last transaction that is completely in Kafka, `system_id` identifies the
database cluster, and `timeline` the timeline of its write-ahead log. If a transaction was split, `xid` is its id, and
`seq` the number of its changes that are in Kafka: a transaction is decoded in the same order each time. `txId` and
`ts_usec` are for information only, as in Debezium.
"""

from typing import Final, NamedTuple

from ringfence.connectors.api import ConnectorError, SourceOffset
from ringfence.connectors.builtin.postgres.debezium_offsets import PROCESSED, DeliveredPosition, read_delivered

LSN: Final = "lsn_commit"
XID: Final = "xid"
SEQ: Final = "seq"
SYSTEM: Final = "system_id"
TIMELINE: Final = "timeline"


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
