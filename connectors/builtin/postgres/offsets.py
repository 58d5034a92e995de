"""The source offset of the stream: where to go on, and of what.

`{"lsn_commit": 26678520}` is the end of the last transaction that is wholly in Kafka, `system_id` the identity of the
database cluster, and `timeline` that of its write-ahead log. Within a transaction that is split, `xid` and `seq` say
how many of its changes are in Kafka, too: a transaction is decoded in the same order each time. `txId` and `ts_usec`
are for people, as in Debezium.
"""

from typing import Final, NamedTuple

from ringfence.connectors.api import ConnectorError, SourceOffset
from ringfence.connectors.builtin.postgres.debezium_offsets import PROCESSED, Delivered, read_delivered

LSN: Final = "lsn_commit"
XID: Final = "xid"
SEQ: Final = "seq"
SYSTEM: Final = "system_id"
TIMELINE: Final = "timeline"


class Origin(NamedTuple):
    """What positions are of: a database cluster, and a timeline of its log. None: not known, as on a standby."""

    system: str
    timeline: int | None = None


class Position(NamedTuple):
    """`xid`, `seq`: of a split transaction, the first behind `lsn`; 0 where the position is between two.

    timeline: None where it is not known.
    debezium: what Debezium has delivered of it, where the offset is one of Debezium's.
    """

    lsn: int
    xid: int = 0
    seq: int = 0
    system: str | None = None
    debezium: Delivered | None = None
    timeline: int | None = None


def position_of(offset: SourceOffset) -> Position:
    """Raises `ConnectorError` for an offset that is not this connector's."""
    debezium = read_delivered(offset) if PROCESSED in offset else None
    numbers = [offset.get(LSN), offset.get(XID, 0), offset.get(SEQ, 0)]
    if any(not isinstance(number, int) or isinstance(number, bool) or number < 0 for number in numbers):
        raise ConnectorError(
            f"The offset {dict(offset)} must have a position in the write-ahead log under {LSN!r}, as an integer. "
            "Stop the connector and alter or reset its offsets."
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
    """Where nothing was read yet."""
    timeline = {} if origin.timeline is None else {TIMELINE: origin.timeline}
    return {LSN: lsn, SYSTEM: origin.system, **timeline}


def between(lsn: int, origin: Origin, xid: int, time_us: int) -> SourceOffset:
    """Behind a whole transaction."""
    return {**start_at(lsn, origin), "txId": xid, "ts_usec": time_us}


def within(start: SourceOffset, xid: int, seq: int) -> SourceOffset:
    """In a transaction that begins at the offset `start`, behind `seq` of its changes."""
    kept = {name: start[name] for name in (LSN, SYSTEM, TIMELINE) if name in start}
    return {**kept, XID: xid, SEQ: seq}
