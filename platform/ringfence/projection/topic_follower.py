"""Reads one topic, and writes its rows in short transactions.

Nobody else writes to SQLite while a transaction lasts, and requests write before they begin (audit entries). So that
others do not wait for what one tenant makes much of, a transaction takes fewer records if the one before took long.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.projection.change_notifications import Notice
from ringfence.projection.offset_rows import AT_ONCE, Backlog
from ringfence.projection.records import Record
from ringfence.projection.topic_projection import Projection

HELD_SECONDS: Final = 0.05
"""What a transaction should take at most."""
_MOST: Final = 500
_MOST_ROWS: Final = 200
"""Of topics whose records become wide rows."""
_LEAST: Final = 15
"""A transaction with fewer records takes hardly less time."""
_SHOWN_BYTES: Final = 16 << 20
"""Of source offsets behind an open transaction, which any task may keep open."""


class Pace:
    """How many records the next transaction takes. Pure."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = most

    def note(self, records: int, seconds: float) -> None:
        """Take in how long a transaction with so many records has taken."""
        if seconds > HELD_SECONDS:
            self.limit = max(_LEAST, int(min(self.limit, records) * HELD_SECONDS / seconds))
        elif records >= self.limit and seconds < HELD_SECONDS / 2:
            self.limit = min(self._most, 2 * self.limit)


class Changes:
    """The changes of one pass over the topics."""

    def __init__(self) -> None:
        self.any = False
        """Whether any record was applied or shown."""
        self._names: dict[str, set[str]] = {"config": set(), "status": set(), "offsets": set(), "events": set()}
        self._other = False

    def add(self, role: str, names: Iterable[str], records: Sequence[Record]) -> None:
        """Add a topic's records, and the connectors that they concern."""
        unique_names = set(names)
        self._names[role] |= unique_names
        self.any |= bool(records)
        self._other |= bool(records) and not unique_names

    def show(self, role: str, names: Iterable[str]) -> None:
        """Add the connectors of records behind an open transaction. They may also have disappeared."""
        self._names[role] |= set(names)
        self.any = True

    def notice(self) -> Notice:
        state = self._names["config"] | self._names["status"]
        return Notice(tuple(state), tuple((self._names["offsets"] | self._names["events"]) - state), self._other)


class TopicFollower:
    """One topic in the order of its records. `step` is called again and again, by one thread."""

    def __init__(self, reader: TopicLog, projection: Projection, clock: Callable[[], float] = time.monotonic) -> None:
        self.reader, self.projection = reader, projection
        self._clock = clock
        self._role = projection.role
        self._pace = Pace(_MOST_ROWS if self._role in ("status", "config") else _MOST)
        self._backlog = Backlog() if self._role == "offsets" else None
        self._displayed_records: Sequence[LogRecord] = reader.ahead
        self.has_more = False
        """Whether there is more to do at once."""

    def step(self, wait: float, changes: Changes, *, move_idle: bool) -> None:
        """Read what comes next and write it in one transaction.

        wait: for a record, in seconds. move_idle: store a new position even if there were no records.
        """
        if self._backlog is not None:
            self.has_more = self._fold(self._backlog, wait, changes, move_idle=move_idle)
            return
        limit = self._pace.limit
        records = self.reader.follow(wait, limit)
        self._write(records, self.reader.positions, changes, move_idle=move_idle)
        self._show(changes)
        self.has_more = len(records) >= limit // 2

    def _fold(self, backlog: Backlog, wait: float, changes: Changes, *, move_idle: bool) -> bool:
        records = self.reader.follow(wait, AT_ONCE, shown_bytes=_SHOWN_BYTES)
        more = len(records) >= AT_ONCE // 2
        backlog.add(records, self._clock())
        if not backlog:
            self._write((), self.reader.positions, changes, move_idle=move_idle)
        elif backlog.is_due(self._clock(), more=more) or self.reader.ahead is not self._displayed_records:
            folded, reached = backlog.take(self._pace.limit, self._clock())
            self._write(folded, reached if backlog else self.reader.positions, changes, move_idle=move_idle)
        if backlog:
            return more or backlog.is_taken_in_part
        self._show(changes)
        return more

    def _write(self, records: Sequence[Record], reached: dict[int, int], changes: Changes, *, move_idle: bool) -> None:
        # Markers move the position without a record, and a command may wait for the position in the config topic.
        if not records and not ((self._role == "config" or move_idle) and self.projection.behind(reached)):
            return
        began = self._clock()
        changes.add(self._role, self.projection.apply(records, reached), records)
        self._pace.note(len(records), self._clock() - began)

    def _show(self, changes: Changes) -> None:
        ahead, reached = self.reader.ahead, self.reader.positions
        if ahead is self._displayed_records:
            return
        self._displayed_records = ahead
        behind = [one for one in ahead if one.offset >= reached[one.partition]]
        changes.show(self._role, self.projection.show(behind, reached))
