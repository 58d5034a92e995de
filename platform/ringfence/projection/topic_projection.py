"""Writes one topic's rows, and moves its position by compare-and-set in the same transaction.

Status, events and source offsets are only shown, and tasks write them. So a record that cannot be written is left out,
with a warning in the log: else whoever has written it would stop what everybody sees. The config topic's records are
what the platform acts on, so nothing is left out there.

Nobody else writes to SQLite while a transaction lasts, and requests write before they begin (audit entries). So that
others do not wait for what one tenant makes much of, a transaction takes fewer records if the one before took long.

The position in each topic is moved inside the transaction that writes the rows. So the projection is exactly once: if a
batch is applied twice, or by two projectors, the second time fails together with its rows.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db import DataError, connection, transaction
from django.db import Error as AnyDatabaseError

from ringfence.fencing.errors import TopicLost
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.topic_ids import PRECIOUS, Loss, Topic, TopicIds, explanation
from ringfence.fencing.topics.topic_log import TopicLog
from ringfence.lock_waits import give_way
from ringfence.plain_queries import select
from ringfence.projection import cluster_topics, config_rows, event_rows, offset_rows, status_rows
from ringfence.projection.change_notifications import Notice
from ringfence.projection.models import TopicPosition
from ringfence.projection.offset_rows import AT_ONCE, Backlog
from ringfence.projection.records import Record


class Superseded(Exception):
    """Another projector has moved the position: read the position again and continue from there."""


@dataclass(frozen=True, slots=True)
class Position:
    """The position in one topic: the next offset per partition. topic_id: "" if nothing was applied yet."""

    topic: str = ""
    topic_id: str = ""
    offsets: Mapping[int, int] | None = None

    def next_offset(self, partition: int) -> int:
        return (self.offsets or {}).get(partition, 0)


def read_position(role: str) -> Position:
    """Return the current position in the topic of a role."""
    rows = list(TopicPosition.objects.filter(role=role))
    if not rows:
        return Position()
    return Position(rows[0].topic, rows[0].topic_id, {row.partition: row.applied_offset for row in rows})


def delete_outdated(role: str, topic: str, topic_id: str) -> None:
    """Forget the role's positions, for a topic that was created again. Inside the transaction that empties its rows."""
    TopicPosition.objects.filter(role=role).exclude(topic=topic, topic_id=topic_id).delete()


def move(role: str, topic: str, topic_id: str, expected: Mapping[int, int], reached: Mapping[int, int]) -> None:
    """Move every partition from `expected` to `reached`. Inside the transaction that writes the rows.

    Raises `Superseded` if another projector has moved any of them.
    """
    for partition, offset in reached.items():
        before = expected.get(partition)
        if before == offset:
            continue
        if before is None:
            row = TopicPosition(role=role, partition=partition, topic=topic, topic_id=topic_id, applied_offset=offset)
            if TopicPosition.objects.filter(role=role, partition=partition).exists():
                raise Superseded(f"{role}-{partition}: another projector has started")
            row.save(force_insert=True)
            continue
        moved = TopicPosition.objects.filter(
            role=role, partition=partition, topic_id=topic_id, applied_offset=before
        ).update(applied_offset=offset)
        if not moved:
            raise Superseded(f"{role}-{partition} is no longer at offset {before}")


def lock_position(role: str, partition: int, offset: int) -> None:
    """Lock the partition's position until the transaction's end. Raises `Superseded` if it is not `offset`."""
    if not TopicPosition.objects.filter(role=role, partition=partition, applied_offset=offset).update(
        applied_offset=offset
    ):
        raise Superseded(f"{role}-{partition} is no longer at offset {offset}")


def store_shown_offsets(role: str, applied: Mapping[int, int], positions: Mapping[int, int]) -> None:
    """Store that the rows show more than is applied, up to `positions`. Inside the transaction that writes them.

    Raises `Superseded` if a partition's position is not that in `applied`.
    """
    for partition, offset in positions.items():
        here = TopicPosition.objects.filter(role=role, partition=partition, applied_offset=applied.get(partition, 0))
        if not here.update(shown_offset=offset):
            raise Superseded(f"{role}-{partition} is no longer at offset {applied.get(partition, 0)}")


def shown_offset(role: str, partition: int) -> int:
    """Return the offset up to which the rows show everything that is committed; 0 if they show nothing."""
    rows = select(TopicPosition, "applied_offset, shown_offset", "role = %s AND partition = %s", role, partition)
    return max((max(row) for row in rows), default=0)


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rows:
    """The functions that write the records of a role as rows, and that delete these rows."""

    write: Callable[[Sequence[Record]], set[str]]
    forget: Callable[[], None]


_ROWS = {
    "offsets": Rows(offset_rows.write, offset_rows.forget),
    "status": Rows(status_rows.write, status_rows.forget),
    "events": Rows(event_rows.write, event_rows.forget),
}


class Projection:
    """One topic's rows and position. It needs no Kafka: `apply` gets records, and the reader's position after them."""

    def __init__(self, role: str, topic: str, topic_id: str, ids: TopicIds | None = None) -> None:
        """Read the position, and start over if the rows came from another topic of that role.

        ids: the cluster's topics. Raises `TopicLost` for a config or offsets topic that is not one of them.
        """
        self.role, self.topic, self.topic_id = role, topic, topic_id
        self._state = ClusterState()
        stand = read_position(role)
        if stand.topic_id and (stand.topic_id, stand.topic) != (topic_id, topic):
            replaced = role in PRECIOUS and stand.topic == topic
            if replaced and not cluster_topics.accepts(ids, role, Topic(topic, topic_id)):
                raise TopicLost(explanation([Loss(role, topic, stand.topic_id, topic_id)]))
            log.warning("The %s topic has been replaced (%s, id %s): its rows are made again", role, topic, topic_id)
            with transaction.atomic():
                delete_outdated(role, topic, topic_id)
                (config_rows.delete_outdated if role == "config" else _ROWS[role].forget)()
            stand = read_position(role)
        self._stand = Position(topic, topic_id, dict(stand.offsets or {}))

    @property
    def start(self) -> dict[int, int]:
        """Return where to start reading: the config topic at its beginning, since its state is only in memory."""
        return {} if self.role == "config" else dict(self._stand.offsets or {})

    def behind(self, reached: Mapping[int, int]) -> bool:
        """Return whether `reached` is past the stored position."""
        return any(offset > self._stand.next_offset(p) for p, offset in reached.items())

    def apply(self, records: Sequence[Record], reached: Mapping[int, int]) -> set[str]:
        """Write the rows of these records and store `reached`. Return the connectors that changed.

        Raises `Superseded`; then nothing is written.
        """
        offsets = self._stand.offsets or {}
        new = [record for record in records if record.offset >= self._stand.next_offset(record.partition)]
        reached = {p: max(offset, offsets.get(p, 0)) for p, offset in reached.items()}
        change = config_rows.ConfigChange(self._state)
        if self.role == "config":
            old = [record for record in records if record.offset < self._stand.next_offset(record.partition)]
            change = config_rows.fold(config_rows.fold(self._state, old, self.topic).state, new, self.topic)
        give_way(connection)
        with transaction.atomic():
            move(self.role, self.topic, self.topic_id, offsets, reached)
            if self.role != "config":
                touched = self._write(new)
            else:
                touched = config_rows.write(change) if new else set()
        self._state = change.state
        self._stand = Position(self.topic, self.topic_id, {**offsets, **reached})
        return touched

    def show(self, ahead: Sequence[Record], reached: Mapping[int, int]) -> set[str]:
        """Write the rows of records that are committed after an open transaction, without moving the position.

        reached: the reader's position, before that transaction. `apply` gets the records again. Raises `Superseded`.
        """
        if not ahead:
            return set()
        ends: dict[int, int] = {}
        for record in ahead:
            ends[record.partition] = max(ends.get(record.partition, 0), record.offset + 1)
        here = {p: max(reached.get(p, 0), self._stand.next_offset(p)) for p in ends}
        give_way(connection)
        with transaction.atomic():
            move(self.role, self.topic, self.topic_id, self._stand.offsets or {}, here)
            store_shown_offsets(self.role, here, ends)
            if self.role == "config":
                touched = config_rows.write(config_rows.fold(self._state, ahead, self.topic))
            else:
                touched = self._write(ahead)
        self._stand = Position(self.topic, self.topic_id, {**(self._stand.offsets or {}), **here})
        return touched

    def _write(self, records: Sequence[Record]) -> set[str]:
        """Write the rows of the records that can be written. Inside the transaction."""
        if not records:
            return set()
        try:
            with transaction.atomic():
                return _ROWS[self.role].write(records)
        except Exception as error:
            if isinstance(error, AnyDatabaseError) and not _is_about_values(error):
                raise
            if len(records) == 1:
                at = f"{self.topic}-{records[0].partition}, offset {records[0].offset}"
                log.warning("%s: left out, because its rows cannot be written: %s", at, type(error).__name__)
                return set()
        half = len(records) // 2
        return self._write(records[:half]) | self._write(records[half:])

    def remove_others(self) -> set[str]:
        """At the config topic's end, remove the connectors that it does not have. Raises `Superseded`."""
        with transaction.atomic():
            if (self._stand.offsets or {}).get(0) is not None:
                lock_position(self.role, 0, self._stand.next_offset(0))
            return config_rows.remove_others(self._state)


def _is_about_values(error: AnyDatabaseError) -> bool:
    """Return whether the database refuses what is written, and not the connection, the lock or the disk.

    PostgreSQL reports values beyond its limits as an operational error (class 54).
    """
    state = getattr(error.__cause__, "sqlstate", None) or ""
    return isinstance(error, DataError) or state.startswith("54")


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
