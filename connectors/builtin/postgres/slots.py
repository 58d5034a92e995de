"""The publication and the replication slot: created if they are missing, held against the committed offset,
watched, dropped.

If the slot does not match the offset, changes are lost. The task never skips such a gap by itself: it fails with an
error that contains the remedy.

A promoted standby and a restored backup start a new timeline: from there, the same positions mean other changes. So an
offset contains its timeline, and is refused if the server has left that timeline before the offset's position, no
matter how much the server has written since.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import psycopg
from psycopg import pq, sql

from ringfence.connectors.api import ConnectorError, Gauge, RetriableError, SourceMetrics, SourceOffset
from ringfence.connectors.builtin.postgres import settings as names
from ringfence.connectors.builtin.postgres.offsets import Origin, Position, between, lsn_number, lsn_text, position_of
from ringfence.connectors.builtin.postgres.session import Server, Session, Setup, captured_tables, one_line

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


def prepare_publication(setup: Setup) -> None:
    """Create or change the publication as `publication.autocreate.mode` requires. Raises `ConnectorError`."""
    session, name = setup.session, setup.publication
    mode, via_root = setup.settings.string(names.AUTOCREATE), setup.settings.boolean(names.VIA_ROOT)
    rows = session.query("SELECT puballtables FROM pg_publication WHERE pubname = %s", [name])
    here = sql.Identifier(name)
    if rows and (mode != names.FILTERED or rows[0][0]):
        return
    if mode == names.DISABLED:
        raise ConnectorError(
            f"There is no publication {name}, and {names.AUTOCREATE}={mode}. Create it: "
            f"CREATE PUBLICATION {name} FOR ALL TABLES; or for the captured tables only."
        )
    table_list = (
        sql.SQL(", ").join(sql.Identifier(*table) for table in captured_tables(session, setup.selection))
        if mode == names.FILTERED
        else None
    )
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
        _check_timeline(position, _read_ends(_query_history(server, timeline) if timeline > 1 else ""))
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


def _check_timeline(position: Position, ends: dict[int, int]) -> None:
    assert position.timeline is not None
    end = ends.get(position.timeline)
    if end is None or end < position.lsn:
        left = "never had" if end is None else f"left at {lsn_text(end)}"
        raise LostPosition(
            f"This connector's offset {lsn_text(position.lsn)} is in timeline {position.timeline}, which the server "
            f"{left}: a standby was promoted, or a backup restored, that lacked the newest changes that are in Kafka. "
            f"What it wrote in their place would be skipped. {RESET}"
        )


_TRIES: Final = 3


class StreamStart(NamedTuple):
    """start: the position at which the stream starts; origin: the server it belongs to; new: nothing is committed yet;
    offset: `start` as a source offset.
    """

    start: Position
    origin: Origin
    new: bool

    @property
    def offset(self) -> SourceOffset:
        return between(self.start.lsn, self.origin, 0, 0)


def open_slot(setup: Setup, committed: SourceOffset | None) -> StreamStart:
    """Find the slot, or create it if nothing is committed. Raises `ConnectorError`, and `LostPosition` if changes would
    be lost.
    """
    session, name = setup.session, setup.slot
    position = position_of(committed) if committed else None
    slot = find_slot(session, name)
    for _ in range(_TRIES):  # somebody may drop the slot again, for example that of an earlier connector
        if slot is not None or position is not None:
            break
        create_slot(session, name, failover=setup.settings.boolean(names.SLOT_FAILOVER))
        slot = find_slot(session, name)
    check_slot(name, slot, setup.server.database, position.lsn if position else None)
    assert slot is not None
    ((system,),) = session.query("SELECT system_identifier::text FROM pg_control_system()")
    if position is not None and position.system not in (None, system):
        raise LostPosition(
            "The committed offset belongs to another database server: this one was created later, and the changes in "
            "between are unknown. To read from this server, stop the connector, reset its offsets and resume it; or "
            "set another topic.prefix."
        )
    start = position or Position(slot.confirmed or 0)
    check_position(session, start.lsn)
    timeline = find_timeline(session, setup.server, position)
    return StreamStart(start, Origin(str(system), timeline), committed is None)


def renew_slot(setup: Setup) -> StreamStart:
    """Open the slot from a new position after changes were lost; drop it if it is invalidated. Raises
    `ConnectorError`.
    """
    slot = find_slot(setup.session, setup.slot)
    if slot is not None and slot.wal_status == "lost":
        drop_slot(setup.session, setup.slot)
    return open_slot(setup, None)


EVERY_SECONDS: Final = 10.0
_LOOKED_SECONDS: Final = 15.0
"""If the stream was empty at most this long ago, the task is considered up to date."""

_SERVER: Final = """
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END - '0/0',
       extract(epoch FROM now())::float8,
       (SELECT setting::int8 * 1048576 FROM pg_settings WHERE name = 'max_slot_wal_keep_size')
"""
_SLOTS: Final = """
SELECT slot_name, active, (confirmed_flush_lsn - '0/0')::int8, (restart_lsn - '0/0')::int8
FROM pg_replication_slots WHERE restart_lsn IS NOT NULL
"""


class Progress:
    """How far the task has read. The task's thread writes it, the watch's thread reads it."""

    def __init__(self) -> None:
        self._newest_us = 0
        self._dry_at: float | None = None

    def read(self, newest_us: int, *, dry: bool) -> None:
        """Record the newest transaction that was read, and whether the stream is dry (has no more messages).

        newest_us: its commit time, microseconds since 1970; 0 if none was read.
        """
        self._newest_us = newest_us
        self._dry_at = time.monotonic() if dry else None

    def seconds_behind(self, server_now: float) -> float:
        """Return for how long there may have been unread changes. server_now: seconds since 1970."""
        dry_at = self._dry_at
        if dry_at is not None:
            since = time.monotonic() - dry_at
            return 0.0 if since < _LOOKED_SECONDS else since
        return max(0.0, server_now - self._newest_us / 1_000_000) if self._newest_us else 0.0


class SlotWatch:
    """Measures every `EVERY_SECONDS` until `close`."""

    def __init__(self, server: Server, slot: str, metrics: SourceMetrics, progress: Progress, warn_bytes: int) -> None:
        """warn_bytes: the limit of the retained log, above which an alert is raised; 0 for none."""
        self._session = Session(server)
        self._slot = slot
        self._metrics = metrics
        self._progress = progress
        self._warn = warn_bytes
        self._lag = metrics.gauge("lag", "Write-ahead log that is not in Kafka yet", unit="bytes")
        self._behind = metrics.gauge("behind", "Time by which the task is behind the server", unit="seconds")
        self._forgotten: Gauge | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slot watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                self.measure()
            except (ConnectorError, psycopg.Error) as error:
                logger.debug("The replication slot cannot be measured now: %s", error)
                self._lag.set(None)
                self._behind.set(None)
            if self._closing.wait(EVERY_SECONDS):
                self._session.close()
                return

    def measure(self) -> None:
        """Measure once."""
        slots = {name: each for name, *each in self._session.query(_SLOTS)}
        ((end, now, bound),) = self._session.query(_SERVER)
        _, confirmed, kept_from = slots.pop(self._slot, (False, None, None))
        self._lag.set(None if confirmed is None else max(0, int(end) - confirmed))
        self._behind.set(self._progress.seconds_behind(now))
        self._describe_retained(bound).set(None if kept_from is None else max(0, int(end) - kept_from))
        if self._forgotten is not None:
            self._forgotten.set(0)
        unread = [(kept_from, name) for name, (active, _, kept_from) in slots.items() if not active]
        if unread:
            kept_from, name = min(unread)
            drop = f"Drop it if it is not needed: SELECT pg_drop_replication_slot('{name}');"
            self._forgotten = self._metrics.gauge(
                "unread_slot_retained_wal",
                "Write-ahead log that the server retains for an inactive slot, the largest amount of all such slots",
                unit="bytes",
                limit=self._warn or None,
                remedy=f"The slot {name} fills the server's disk. {drop}",
            )
            self._forgotten.set(max(0, int(end) - kept_from))

    def _describe_retained(self, bound: int) -> Gauge:
        """Return the gauge of the retained log. bound: max_slot_wal_keep_size in bytes, negative for no limit. The
        server invalidates a slot that exceeds it.
        """
        limit = min(self._warn, bound * 4 // 5) if bound >= 0 else self._warn
        return self._metrics.gauge(
            "retained_wal",
            "Write-ahead log that the server retains for the replication slot",
            unit="bytes",
            limit=limit or None,
            remedy=f"The server's disk fills up{'' if bound < 0 else ', or the slot is invalidated'}. Check whether "
            f"the task keeps up, and what it waits for. Change the limit with {names.RETAINED_WARN}.",
        )

    def close(self) -> None:
        self._closing.set()
        self._thread.join(15)
