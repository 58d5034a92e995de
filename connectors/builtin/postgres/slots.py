"""The publication and the replication slot: created where they are missing, and checked against the offset.

A slot that is not what the offset was read from means that changes are lost. The task never goes on over such a gap by
itself: it fails, and says what to do.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.lsn import lsn_text
from ringfence.connectors.builtin.postgres.session import Session, one_line

logger = logging.getLogger(__name__)

_SLOT: Final = """
SELECT s.plugin, s.slot_type, s.database, s.active_pid, (s.confirmed_flush_lsn - '0/0')::int8, s.wal_status,
       a.application_name
FROM pg_replication_slots s LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid
WHERE s.slot_name = %s
"""
RESET: Final = (
    "To go on from now on without them, stop the connector, reset its offsets and resume it; read the tables again to "
    "have their rows complete."
)


class LostPosition(ConnectorError):
    """The changes behind the committed offset cannot be had any more."""


class Slot(NamedTuple):
    """`confirmed`: the position up to which the server has been told that nothing is needed; None before the first."""

    plugin: str | None
    kind: str
    database: str | None
    active_pid: int | None
    confirmed: int | None
    wal_status: str | None
    application: str | None


def find_slot(session: Session, name: str) -> Slot | None:
    rows = session.query(_SLOT, [name])
    return Slot(*rows[0]) if rows else None


def create_slot(session: Session, name: str, *, failover: bool) -> None:
    """Raises `ConnectorError`."""
    if failover and session.connection.info.server_version < 170000:
        raise ConnectorError(
            f"{names.SLOT_FAILOVER} needs PostgreSQL 17 or newer. Remove it: after a failover there is no slot."
        )
    more = ", false, false, true" if failover else ""
    try:
        session.query(f"SELECT pg_create_logical_replication_slot(%s, 'pgoutput'{more})", [name])
    except psycopg.Error as error:
        raise ConnectorError(f"The replication slot {name} cannot be created: {one_line(error)}.") from error


def check_slot(name: str, slot: Slot | None, database: str, offset: int | None) -> None:
    """Refuse a slot that cannot go on where the offset says. `offset`: None where nothing was committed yet."""
    if slot is None:
        raise LostPosition(
            f"The replication slot {name} is gone, so what was changed after {lsn_text(offset or 0)} is lost to this "
            f"connector. It was dropped, or the server is another one after a failover. {RESET}"
        )
    if slot.kind != "logical" or slot.plugin != "pgoutput" or slot.database != database:
        raise ConnectorError(
            f"The replication slot {name} is a {slot.kind} one of {slot.database or 'no database'} with the plugin "
            f"{slot.plugin or 'none'}, and a logical one of {database} with pgoutput is needed. Give another name as "
            f"{names.SLOT}, or drop the slot: SELECT pg_drop_replication_slot('{name}')."
        )
    if slot.wal_status == "lost":
        raise LostPosition(
            f"The server has invalidated the replication slot {name}, because it held more write-ahead log than "
            "max_slot_wal_keep_size allows: changes are lost to this connector. Raise that limit, and drop the slot: "
            f"SELECT pg_drop_replication_slot('{name}'). {RESET}"
        )
    if offset is not None and slot.confirmed is not None and slot.confirmed > offset:
        raise LostPosition(
            f"The replication slot {name} stands at {lsn_text(slot.confirmed)}, which is ahead of this connector's "
            f"offset {lsn_text(offset)}: something else has read from the slot, or advanced it, and the changes in "
            f"between are lost to this connector. Give each connector a slot of its own. {RESET}"
        )


def check_position(session: Session, offset: int) -> None:
    """Refuse a server that has not written as far as the offset."""
    ((end,),) = session.query(
        "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_flush_lsn() END"
        " - '0/0')::int8"
    )
    if end is not None and end < offset:
        raise LostPosition(
            f"The server's write-ahead log ends at {lsn_text(end)}, before this connector's offset {lsn_text(offset)}: "
            "it was restored from a backup, or is another server. What it writes now would be skipped. "
            f"{RESET}"
        )


def free_slot(session: Session, name: str, application: str, wait: Callable[[float], bool]) -> None:
    """End what an earlier attempt of this connector has left on the slot. Anybody else's use of it is an error."""
    for _ in range(60):
        slot = find_slot(session, name)
        if slot is None or slot.active_pid is None:
            return
        if slot.application != application:
            raise ConnectorError(
                f"The replication slot {name} is in use by {slot.application or 'another program'} (process "
                f"{slot.active_pid} of the server). Give this connector another {names.SLOT}, or stop the other."
            )
        logger.info("Ending the server's process %d, which still serves an earlier attempt", slot.active_pid)
        # Where that is not allowed, the server notices by itself after wal_sender_timeout.
        with suppress(psycopg.errors.InsufficientPrivilege):
            session.query("SELECT pg_terminate_backend(%s)", [slot.active_pid])
        if wait(0.2):
            return
    raise RetriableError(f"The replication slot {name} is still in use by an earlier attempt.")


def prepare_publication(
    session: Session, name: str, mode: str, tables: Callable[[], Sequence[tuple[str, str]]], *, via_root: bool
) -> None:
    """Create the publication where it is missing, as the mode says. tables: those that are read."""
    known = session.query("SELECT puballtables FROM pg_publication WHERE pubname = %s", [name])
    here = sql.Identifier(name)
    if known and (mode != names.FILTERED or known[0][0]):
        return
    if mode == names.DISABLED:
        raise ConnectorError(
            f"There is no publication {name}, and {names.AUTOCREATE}={mode}. Create it: "
            f"CREATE PUBLICATION {name} FOR ALL TABLES; or for the tables that are read."
        )
    named = sql.SQL(", ").join(sql.Identifier(*table) for table in tables()) if mode == names.FILTERED else None
    root = sql.SQL(" WITH (publish_via_partition_root = true)") if via_root else sql.SQL("")
    try:
        if known:
            session.execute(sql.SQL("ALTER PUBLICATION {} SET TABLE {}").format(here, named))
        elif mode == names.ALL_TABLES:
            session.execute(sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES{}").format(here, root))
        elif named is not None:
            session.execute(sql.SQL("CREATE PUBLICATION {} FOR TABLE {}{}").format(here, named, root))
        else:
            session.execute(sql.SQL("CREATE PUBLICATION {}{}").format(here, root))
    except psycopg.Error as error:
        raise ConnectorError(
            f"The publication {name} cannot be created or changed: {one_line(error)}. Have a superuser, or the owner "
            f"of the tables, do it, and set {names.AUTOCREATE}={names.DISABLED}."
        ) from error


def drop_slot(session: Session, name: str) -> None:
    """Wait for the stream's end, and drop the slot."""
    deadline = time.monotonic() + 10
    while True:
        try:
            session.query("SELECT pg_drop_replication_slot(%s)", [name])
            return
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
