"""Keeps the database up to date with the four topics, exactly once.

For each topic: 1 read the stored position and topic id, 2 if the topic id differs, see below, 3 read committed records
from the position, 4 write the rows and move the position by compare-and-set in one database transaction, 5 notify the
open pages. If a compare-and-set fails, another projector runs: start over from 1. If another client's open transaction
stops the reading, the rows also show what is committed after it. The position stays before it, so these records are
read again, in order, when that transaction has ended.

A config or offsets topic with another id than before is only read if an operator has accepted it
(`fencing.topics.topic_ids`). Otherwise the rows stay, and the loss is reported. Rows that an accepted topic does not
have are only removed when its end is reached, so the lists are never empty because reading has just begun.

Rows are written in short transactions: nobody else writes to SQLite while a transaction lasts, and requests write
before they begin (audit entries). So that others do not wait for what one tenant makes much of, a transaction takes
fewer records if the one before took long.

Status, events and source offsets are only shown, and tasks write them. So a record that cannot be written is left out,
with a warning in the log: else whoever has written it would stop what everybody sees. The config topic's records are
what the platform acts on, so nothing is left out there.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db import DataError, close_old_connections, connection, transaction
from django.db import Error as DatabaseError

from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import Deadline, epoch_ms
from ringfence.fencing.errors import FencingError, Retriable, TopicLost
from ringfence.fencing.kafka.consumer import LogRecord
from ringfence.fencing.kafka.topic_admin import TopicWatch, cluster_id
from ringfence.fencing.kafka.topic_offsets import StableEnds, end_offsets
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_log import Version
from ringfence.fencing.topics.topic_ids import PRECIOUS, Loss, Topic, TopicIds, explanation
from ringfence.fencing.topics.topic_log import Isolation, TopicLog
from ringfence.heartbeats import heartbeat_writer
from ringfence.heartbeats.heartbeat_writer import FreshnessWatch
from ringfence.lock_waits import give_way
from ringfence.projection import (
    cluster_topics,
    config_rows,
    event_rows,
    offset_rows,
    positions,
    record_totals,
    status_rows,
)
from ringfence.projection.change_notifications import Notice
from ringfence.projection.health import find_late
from ringfence.projection.history_points import HistoryRecorder
from ringfence.projection.models import ClusterInfo
from ringfence.projection.offset_rows import AT_ONCE, Backlog
from ringfence.projection.positions import Position, Superseded
from ringfence.projection.records import Record
from ringfence.projection.signals import housekeeping_due
from ringfence.projection.stalls import Stalls
from ringfence.worker_config import WorkerConfig

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

    def __init__(
        self, role: str, topic: str, topic_id: str, ids: TopicIds | None = None, version: Version | None = None
    ) -> None:
        """Read the position, and start over if the rows came from another topic of that role.

        ids: the cluster's topics. version: what this process knows of the config topic with that id. Raises `TopicLost`
        for a config or offsets topic that is not one of them.
        """
        self.role, self.topic, self.topic_id = role, topic, topic_id
        self._state = ClusterState()
        stand = positions.read_position(role)
        if stand.topic_id and (stand.topic_id, stand.topic) != (topic_id, topic):
            replaced = role in PRECIOUS and stand.topic == topic
            if replaced and not cluster_topics.accepts(ids, role, Topic(topic, topic_id)):
                raise TopicLost(explanation([Loss(role, topic, stand.topic_id, topic_id)]))
            log.warning("The %s topic has been replaced (%s, id %s): its rows are made again", role, topic, topic_id)
            with transaction.atomic():
                positions.delete_outdated(role, topic, topic_id)
                (config_rows.delete_outdated if role == "config" else _ROWS[role].forget)()
            stand = positions.read_position(role)
        self._stand = Position(topic, topic_id, dict(stand.offsets or {}))
        self._needs_all = role == "config"
        if role == "config" and version is not None and version.position == self._stand.next_offset(0):
            self._state, self._needs_all = version.state, False

    @property
    def start(self) -> dict[int, int]:
        """Return where to start reading: the config topic at its beginning, unless its state at the stored position is
        known, since that is only in memory.
        """
        return {} if self._needs_all else dict(self._stand.offsets or {})

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
            positions.move(self.role, self.topic, self.topic_id, offsets, reached)
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
            positions.move(self.role, self.topic, self.topic_id, self._stand.offsets or {}, here)
            positions.store_shown_offsets(self.role, here, ends)
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
            if isinstance(error, DatabaseError) and not _is_about_values(error):
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
                positions.lock_position(self.role, 0, self._stand.next_offset(0))
            return config_rows.remove_others(self._state)


def _is_about_values(error: DatabaseError) -> bool:
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


RESTING: Final = frozenset({"status", "events"})
"""The roles whose next records wait for a moment, so that one transaction has those of several tasks. Most of its time
does not depend on how many there are. Commands wait for the config topic's rows, and offsets have a pace of their own.
"""
_RESTS: Final = 4.0
"""Times as long as the last transaction took."""
MOST_REST_SECONDS: Final = 0.2


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

    def __init__(
        self,
        reader: TopicLog,
        projection: Projection,
        clock: Callable[[], float] = time.monotonic,
        before_write: Callable[[], None] = lambda: None,
    ) -> None:
        """before_write: called before each transaction."""
        self.reader, self.projection = reader, projection
        self._clock = clock
        self._before_write = before_write
        self._role = projection.role
        self._pace = Pace(_MOST_ROWS if self._role in ("status", "config") else _MOST)
        self._backlog = Backlog() if self._role == "offsets" else None
        self._displayed_records: Sequence[LogRecord] = reader.ahead
        self.has_more = False
        """Whether there is more to do at once."""
        self._rests_until = float("-inf")

    def step(self, wait: float, changes: Changes, *, move_idle: bool) -> None:
        """Read what comes next and write it in one transaction.

        wait: for a record, in seconds. move_idle: store a new position even if there were no records.
        """
        if self._backlog is not None:
            self.has_more = self._fold(self._backlog, wait, changes, move_idle=move_idle)
            return
        if self._clock() < self._rests_until:
            return
        limit = self._pace.limit
        records = self.reader.follow(wait, limit)
        seconds = self._write(records, self.reader.positions, changes, move_idle=move_idle)
        self._show(changes)
        self.has_more = len(records) >= limit // 2
        if records and not self.has_more and self._role in RESTING:
            self._rests_until = self._clock() + min(_RESTS * seconds, MOST_REST_SECONDS)

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

    def _write(self, records: Sequence[Record], reached: dict[int, int], changes: Changes, *, move_idle: bool) -> float:
        """Return the seconds that it took."""
        # Markers move the position without a record, and a command may wait for the position in the config topic.
        if not records and not ((self._role == "config" or move_idle) and self.projection.behind(reached)):
            return 0.0
        self._before_write()
        began = self._clock()
        changes.add(self._role, self.projection.apply(records, reached), records)
        seconds = self._clock() - began
        self._pace.note(len(records), seconds)
        return seconds

    def _show(self, changes: Changes) -> None:
        ahead, reached = self.reader.ahead, self.reader.positions
        if ahead is self._displayed_records:
            return
        self._displayed_records = ahead
        behind = [one for one in ahead if one.offset >= reached[one.partition]]
        self._before_write()
        changes.show(self._role, self.projection.show(behind, reached))


Notify = Callable[[Notice], None]

_WAIT_SECONDS = 0.05
_GATHER_MS = 100
"""Of source offsets. A task may commit some hundred times a second, and their rows have a pace of their own."""
_YIELD_SECONDS = 0.2
"""What is left to the other threads at most, after each pass with much to do."""
_PRUNE_SECONDS = 300.0
_IDLE_MOVE_SECONDS = 0.25
_STALL_SECONDS = 15.0
_LATE_SECONDS = 3.0
_WATCH_SECONDS = 1.0
_BACKOFF = Backoff(0.2, 5)
_AFTER_A_DEFECT_SECONDS = 5.0


def _step(topics: Mapping[str, TopicFollower], wait: float, changes: Changes, *, move_idle: bool) -> None:
    """Do the next slice of each topic. Commands wait for rows of the config topic, so it comes before each other one.

    wait: for a record of the config topic, in seconds. move_idle: store new positions even if there were no records.
    """
    config = topics["config"]
    config.step(wait, changes, move_idle=move_idle)
    for role, topic in topics.items():
        if role != "config":
            topic.step(0.0, changes, move_idle=move_idle)
            config.step(0.0, changes, move_idle=False)


class _Chores:
    """The projector's periodic work: health, history, and the removal of old rows."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._stalls, self._history = Stalls(), HistoryRecorder()
        self._look_at, self._prune_at = time.monotonic() + _STALL_SECONDS, 0.0
        self._late_at, self._late_until_ms = 0.0, 0

    def run(self, now: float) -> None:
        """Do what is due. now: monotonic."""
        if now >= self._late_at:
            now_ms = epoch_ms()
            if late := find_late(self._late_until_ms, now_ms):
                self._notify(Notice(tuple(late)))
            self._late_at, self._late_until_ms = now + _LATE_SECONDS, now_ms
        if now >= self._look_at:
            now_ms = epoch_ms()
            if changed := self._stalls.look(now_ms) | record_totals.update_counts(now_ms):
                self._notify(Notice(tuple(changed)))
            self._history.look(now_ms)
            self._look_at = now + _STALL_SECONDS
        if now >= self._prune_at:
            now_ms = epoch_ms()
            event_rows.prune(now_ms)
            config_rows.prune(now_ms)
            housekeeping_due.send(sender=None, now_ms=now_ms)
            self._prune_at = now + _PRUNE_SECONDS


def _reason(error: Exception) -> str:
    """Return what the projector waits for. The database's own message may quote a row."""
    return str(error) if isinstance(error, FencingError) else f"the database does not write ({type(error).__name__})"


class Projector:
    """Runs the projections of the four topics in the calling thread, and passes changes to `notify`."""

    def __init__(
        self,
        config: WorkerConfig,
        notify: Notify,
        ids: TopicIds | None = None,
        before_write: Callable[[], None] = lambda: None,
        find_version: Callable[[str], Version | None] = lambda _topic_id: None,
    ) -> None:
        """ids: the cluster's topics, as this worker has found them. before_write: called before each transaction; it
        may let others of this process go first, for a moment. find_version: returns what this process knows of the
        config topic with that id, if a reader may go on from there.
        """
        self._config = config
        self._notify = notify
        self._ids = ids
        self._before_write = before_write
        self._find_version = find_version
        self._has_reported = False

    def run(self, stop: threading.Event) -> None:
        """Project until `stop`. Without Kafka or the database, retry with growing pauses, and log it once."""
        failures = 0
        while not stop.is_set():
            began = time.monotonic()
            try:
                self._session(stop)
            except Superseded as error:
                log.info("Another projector is at work: %s", error)
                stop.wait(0.5)
                continue
            except (DatabaseError, FencingError) as error:
                if isinstance(error, TopicLost):
                    cluster_topics.store_loss(str(error))
                failures = 1 if time.monotonic() - began > 60 else failures + 1
                if not self._has_reported:
                    log.warning("The projection waits: %s: %s", type(error).__name__, error)
                    self._has_reported = True
                heartbeat_writer.current.note(_reason(error))
                stop.wait(_BACKOFF.pause(failures))
            except Exception as error:
                heartbeat_writer.current.note(f"{type(error).__name__}, which is a defect")
                log.exception("The projection failed unexpectedly; it starts again in five seconds")
                stop.wait(_AFTER_A_DEFECT_SECONDS)
            finally:
                close_old_connections()
        connection.close()
        heartbeat_writer.current.note("")  # another worker's may go on

    def _topics(self) -> dict[str, str]:
        config = self._config
        return {
            "config": config.config_topic,
            "status": config.status_topic,
            "offsets": config.offsets_topic,
            "events": config.events_topic,
        }

    def _session(self, stop: threading.Event) -> None:
        topics: dict[str, TopicFollower] = {}
        try:
            for role, topic in self._topics().items():
                topics[role] = self._open(role, topic)
            self._store_cluster_id()
            if self._ids is not None:
                cluster_topics.remember(self._ids)
            self._follow(topics, stop)
        finally:
            for one in topics.values():
                one.reader.close()

    def _open(self, role: str, topic: str) -> TopicFollower:
        # Status and events are not written in transactions, so another client's open one must not stop their reader.
        isolation = Isolation.UNCOMMITTED if role in ("status", "events") else Isolation.COMMITTED
        gather_ms = _GATHER_MS if role == "offsets" else 0
        connection_ = self._config.connection("ringfence-projection")
        reader = TopicLog(connection_, topic, isolation=isolation, gather_ms=gather_ms)
        try:
            version = self._find_version(reader.topic_id) if role == "config" else None
            projection = Projection(role, topic, reader.topic_id, self._ids, version)
        except BaseException:
            reader.close()
            raise
        reader.restart(projection.start)
        return TopicFollower(reader, projection, before_write=self._before_write)

    def _store_cluster_id(self) -> None:
        id_of_cluster = cluster_id(self._config.connection("ringfence-projection"), Deadline.after(10))
        protocol = self._config.settings.get("security.protocol", "PLAINTEXT").strip().upper()
        fields = {
            "kafka_cluster_id": id_of_cluster,
            "kafka_bootstrap": self._config.bootstrap,
            "kafka_protocol": protocol,
        }
        ClusterInfo.objects.update_or_create(id=1, defaults=fields)

    def _follow(self, topics: Mapping[str, TopicFollower], stop: threading.Event) -> None:
        idle_at = 0.0
        connection_ = self._config.connection("ringfence-projection")
        end = end_offsets(connection_, self._config.config_topic, [0], Deadline.after(30))[0]
        config = topics["config"]
        compared, wait, chores = False, _WAIT_SECONDS, _Chores(self._notify)
        watch = TopicWatch(
            connection_, {one.reader.topic: one.reader.topic_id for one in topics.values()}, _WATCH_SECONDS
        )
        partitions = {one.reader.topic: one.reader.partitions for one in topics.values()}
        freshness = FreshnessWatch(lambda: StableEnds(connection_, partitions))
        while not stop.is_set():
            if odd := watch.look(time.monotonic()):
                self._refuse(odd, topics)
            if not compared and config.reader.positions[0] >= end:
                compared = True
                if deleted := config.projection.remove_others():
                    self._notify(Notice(tuple(deleted)))
            now = time.monotonic()
            move_idle = now >= idle_at
            if move_idle:
                idle_at = now + _IDLE_MOVE_SECONDS
            changes = Changes()
            _step(topics, wait, changes, move_idle=move_idle)
            heartbeat_writer.current.note("")
            freshness.look(
                {(one.reader.topic, p): at for one in topics.values() for p, at in one.reader.positions.items()}
            )
            if changes.any:
                self._recover()
                self._notify(changes.notice())
            chores.run(now)
            wait = _WAIT_SECONDS
            if any(one.has_more for one in topics.values()):  # leave half of the time to connectors that start
                wait = min(time.monotonic() - now, _YIELD_SECONDS)
            if config.has_more:
                stop.wait(wait)
                wait = 0.0

    def _refuse(self, odd: Mapping[str, str | None], topics: Mapping[str, TopicFollower]) -> None:
        """Report that a topic was replaced. Its rows stay; a new status or events topic is followed again."""
        lost = [
            Loss(role, one.reader.topic, one.reader.topic_id, odd[one.reader.topic])
            for role, one in topics.items()
            if one.reader.topic in odd
        ]
        precious = [one for one in lost if one.role in PRECIOUS]
        if precious:
            raise TopicLost(explanation(precious))
        raise Retriable(f"Of the cluster's topics, {lost[0]}")

    def _recover(self) -> None:
        if self._has_reported:
            log.info("The projection continues")
            self._has_reported = False
