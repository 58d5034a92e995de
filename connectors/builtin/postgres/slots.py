"""Creates the publication and the replication slot if they are missing, and checks the slot against the offset.

If the slot does not match the offset, changes are lost. The task never skips such a gap by itself: it fails with an
error that contains the remedy.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import psycopg
from psycopg import sql

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.builtin.postgres import setting_names as names
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
    "To continue from now without them, stop the connector, reset its offsets and resume it; to get complete rows, "
    "read the tables again."
)


class LostPosition(ConnectorError):
    """The changes after the committed offset are lost."""


class Slot(NamedTuple):
    """A replication slot. confirmed: the confirmed position (confirmed_flush_lsn); None before the first one."""

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
    """Create a logical slot. failover: synchronize it to standbys. Raises `ConnectorError`."""
    if failover and session.connection.info.server_version < 170000:
        raise ConnectorError(
            f"{names.SLOT_FAILOVER} needs PostgreSQL 17 or newer. Remove it; the slot does not survive a failover."
        )
    more = ", false, false, true" if failover else ""
    try:
        session.query(f"SELECT pg_create_logical_replication_slot(%s, 'pgoutput'{more})", [name])
    except psycopg.Error as error:
        raise ConnectorError(f"The replication slot {name} cannot be created: {one_line(error)}.") from error


def check_slot(name: str, slot: Slot | None, database: str, offset: int | None) -> None:
    """Refuse a slot that cannot continue from the offset. offset: None if nothing is committed.

    Raises `LostPosition` if changes are lost, and `ConnectorError` for a slot of another kind or database.
    """
    if slot is None:
        raise LostPosition(
            f"The replication slot {name} no longer exists, so this connector has lost the changes after "
            f"{lsn_text(offset or 0)}. It was dropped, or the server is another one after a failover. {RESET}"
        )
    if slot.kind != "logical" or slot.plugin != "pgoutput" or slot.database != database:
        raise ConnectorError(
            f"The replication slot {name} is a {slot.kind} slot of {slot.database or 'no database'} with the plugin "
            f"{slot.plugin or 'none'}. A logical slot of {database} with pgoutput is needed. Set another name as "
            f"{names.SLOT}, or drop the slot: SELECT pg_drop_replication_slot('{name}')."
        )
    if slot.wal_status == "lost":
        raise LostPosition(
            f"The server has invalidated the replication slot {name}, because it retained more write-ahead log than "
            "max_slot_wal_keep_size allows: this connector has lost changes. Raise that limit, and drop the slot: "
            f"SELECT pg_drop_replication_slot('{name}'). {RESET}"
        )
    if offset is not None and slot.confirmed is not None and slot.confirmed > offset:
        raise LostPosition(
            f"The replication slot {name} is at {lsn_text(slot.confirmed)}, which is ahead of this connector's offset "
            f"{lsn_text(offset)}: another program has read from the slot, or advanced it, and this connector has lost "
            f"the changes in between. Use a separate slot for each connector. {RESET}"
        )


def check_position(session: Session, offset: int) -> None:
    """Raise `LostPosition` if the server's log ends before the offset."""
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
    """End the connection of an earlier attempt that still uses the slot.

    application: the name of this connector's connections; wait: waits for seconds, true if the task is to stop. Raises
    `ConnectorError` if another program uses the slot, and `RetriableError` if it does not become free.
    """
    for _ in range(60):
        slot = find_slot(session, name)
        if slot is None or slot.active_pid is None:
            return
        if slot.application != application:
            raise ConnectorError(
                f"The replication slot {name} is in use by {slot.application or 'another program'} (process "
                f"{slot.active_pid} of the server). Set another {names.SLOT} for this connector, or stop that program."
            )
        logger.info("Terminating the server's process %d, which still serves an earlier attempt", slot.active_pid)
        # If that is not permitted, the server ends it after wal_sender_timeout.
        with suppress(psycopg.errors.InsufficientPrivilege):
            session.query("SELECT pg_terminate_backend(%s)", [slot.active_pid])
        if wait(0.2):
            return
    raise RetriableError(f"The replication slot {name} is still in use by an earlier attempt.")


def prepare_publication(
    session: Session, name: str, mode: str, tables: Callable[[], Sequence[tuple[str, str]]], *, via_root: bool
) -> None:
    """Create or change the publication as `publication.autocreate.mode` requires. tables: returns the captured tables.

    Raises `ConnectorError`.
    """
    rows = session.query("SELECT puballtables FROM pg_publication WHERE pubname = %s", [name])
    here = sql.Identifier(name)
    if rows and (mode != names.FILTERED or rows[0][0]):
        return
    if mode == names.DISABLED:
        raise ConnectorError(
            f"There is no publication {name}, and {names.AUTOCREATE}={mode}. Create it: "
            f"CREATE PUBLICATION {name} FOR ALL TABLES; or for the captured tables only."
        )
    table_list = sql.SQL(", ").join(sql.Identifier(*table) for table in tables()) if mode == names.FILTERED else None
    root = sql.SQL(" WITH (publish_via_partition_root = true)") if via_root else sql.SQL("")
    try:
        if rows:
            session.execute(sql.SQL("ALTER PUBLICATION {} SET TABLE {}").format(here, table_list))
        elif mode == names.ALL_TABLES:
            session.execute(sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES{}").format(here, root))
        elif table_list is not None:
            session.execute(sql.SQL("CREATE PUBLICATION {} FOR TABLE {}{}").format(here, table_list, root))
        else:
            session.execute(sql.SQL("CREATE PUBLICATION {}{}").format(here, root))
    except psycopg.Error as error:
        raise ConnectorError(
            f"The publication {name} cannot be created or changed: {one_line(error)}. Let a superuser, or the tables' "
            f"owner, create it, and set {names.AUTOCREATE}={names.DISABLED}."
        ) from error


def drop_slot(session: Session, name: str) -> None:
    """Drop the slot. Waits up to ten seconds until its stream has ended; raises psycopg's errors."""
    deadline = time.monotonic() + 10
    while True:
        try:
            session.query("SELECT pg_drop_replication_slot(%s)", [name])
            return
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
