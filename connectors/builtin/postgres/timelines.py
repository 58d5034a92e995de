"""Checks whether the committed position is in the history of the server's write-ahead log.

A promoted standby and a restored backup start a new timeline: from there, the same positions mean other changes. So an
offset contains its timeline, and is refused if the server has left that timeline before the offset's position, no
matter how much the server has written since.
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
"""The names of the log's files start with the timeline."""


def find_timeline(session: Session, server: Server, position: Position | None) -> int | None:
    """Return the server's timeline; None for a standby, whose timeline changes when it is promoted during the stream.

    Raises `LostPosition` if the position is not in that timeline's history, and `ConnectorError`.
    """
    ((timeline,),) = session.query(_TIMELINE)
    if timeline is not None and position is not None and position.timeline not in (None, timeline):
        _check(position, _read_ends(_query_history(server, timeline) if timeline > 1 else ""))
    return None if timeline is None else int(timeline)


def _query_history(server: Server, timeline: int) -> str:
    """Return the content of the timeline's history file. Raises `ConnectorError`."""
    connection = server.connect(replication=True)
    try:
        result = connection.pgconn.exec_(f"TIMELINE_HISTORY {timeline}".encode())
        if result.status != pq.ExecStatus.TUPLES_OK:
            message = " ".join(result.get_error_message().split())
            raise ConnectorError(f"The history of the server's timeline {timeline} cannot be read: {message}.")
        return (result.get_value(0, 1) or b"").decode()
    finally:
        connection.close()


def _read_ends(history: str) -> dict[int, int]:
    """Return by timeline the position at which the server left it."""
    lines = (line.split("\t") for line in history.splitlines() if line[:1].isdigit())
    return {int(line[0]): lsn_number(line[1]) for line in lines}


def _check(position: Position, ends: dict[int, int]) -> None:
    assert position.timeline is not None
    end = ends.get(position.timeline)
    if end is None or end < position.lsn:
        left = "never had" if end is None else f"left at {lsn_text(end)}"
        raise LostPosition(
            f"This connector's offset {lsn_text(position.lsn)} is in timeline {position.timeline}, which the server "
            f"{left}: a standby was promoted, or a backup restored, that lacked the newest changes that are in Kafka. "
            f"What it wrote in their place would be skipped. {RESET}"
        )
