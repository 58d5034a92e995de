"""Whether the server's write-ahead log still contains the committed position.

A standby that is promoted, and a backup that is restored, begin a new timeline: from there on, the same positions mean
other changes. So an offset names its timeline, and one that lies behind the place where the server has left it is
refused, however far the server has written since.
"""

from typing import Final

from psycopg import pq

from ringfence.connectors.api import ConnectorError
from ringfence.connectors.builtin.postgres.lsn import lsn_number, lsn_text
from ringfence.connectors.builtin.postgres.offsets import Position
from ringfence.connectors.builtin.postgres.session import Server, Session
from ringfence.connectors.builtin.postgres.slots import RESET, LostPosition

_TIMELINE: Final = """
SELECT CASE WHEN NOT pg_is_in_recovery()
       THEN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END
"""
"""The names of the log's files begin with it."""


def find_timeline(session: Session, server: Server, position: Position | None) -> int | None:
    """The server's. None for a standby: one that is promoted goes on with the stream and changes its timeline.

    Raises `LostPosition` where the position is not on the way to it, and `ConnectorError`.
    """
    ((timeline,),) = session.query(_TIMELINE)
    if timeline is not None and position is not None and position.timeline not in (None, timeline):
        _check(position, _read_ends(_query_history(server, timeline) if timeline > 1 else ""))
    return None if timeline is None else int(timeline)


def _query_history(server: Server, timeline: int) -> str:
    """The content of the timeline's file. Raises `ConnectorError`."""
    connection = server.connect(replication=True)
    try:
        result = connection.pgconn.exec_(f"TIMELINE_HISTORY {timeline}".encode())
        if result.status != pq.ExecStatus.TUPLES_OK:
            said = " ".join(result.get_error_message().split())
            raise ConnectorError(f"The server does not tell the history of its timeline {timeline}: {said}.")
        return (result.get_value(0, 1) or b"").decode()
    finally:
        connection.close()


def _read_ends(history: str) -> dict[int, int]:
    """By timeline, where the server has left it."""
    lines = (line.split("\t") for line in history.splitlines() if line[:1].isdigit())
    return {int(line[0]): lsn_number(line[1]) for line in lines}


def _check(position: Position, ends: dict[int, int]) -> None:
    assert position.timeline is not None
    end = ends.get(position.timeline)
    if end is None or end < position.lsn:
        left = "never had" if end is None else f"left at {lsn_text(end)}"
        raise LostPosition(
            f"This connector's offset {lsn_text(position.lsn)} is of timeline {position.timeline}, which the server "
            f"{left}: a standby was promoted, or a backup restored, that did not have the newest changes in Kafka. "
            f"What it wrote in their place would be skipped. {RESET}"
        )
