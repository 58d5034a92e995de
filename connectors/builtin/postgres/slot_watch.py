"""Measures a task's lag, and the write-ahead log that the server retains for its slot.

It has its own thread and connection, so it also measures while the task waits for Kafka, or is paused.
"""

import logging
import threading
import time
from typing import Final

import psycopg

from ringfence.connectors.api import ConnectorError, Gauge, SourceMetrics
from ringfence.connectors.builtin.postgres import setting_names as names
from ringfence.connectors.builtin.postgres.session import Server, Session

logger = logging.getLogger(__name__)

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
