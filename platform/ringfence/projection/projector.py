"""Keeps the database up to date with the four topics, exactly once.

For each topic: 1 read the stored position and topic id, 2 a topic id that differs: see below,
3 read committed records from the position, 4 write the rows and move the position by compare-and-set in one database
transaction, 5 tell the open pages. A lost compare-and-set means that another projector runs: start over from 1.
Where somebody's open transaction holds the reading, the rows also show what is committed behind it; the position stays
before it, so that it is read again in its order once that transaction has ended.

A config or offsets topic with another id than before is read only where a person has accepted it
(`fencing.topics.topic_ids`);
else the rows stay as they are, and the loss is told. What an accepted topic does not say is removed when its end is
reached, not before: the lists are never empty for want of reading.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from django.db import Error as DatabaseError
from django.db import close_old_connections, connection

from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Retriable, TopicLost
from ringfence.fencing.kafka.admin import cluster_id, end_offsets
from ringfence.fencing.kafka.stable_ends import StableEnds
from ringfence.fencing.kafka.topic_watch import TopicWatch
from ringfence.fencing.topics.topic_ids import PRECIOUS, Loss, TopicIds, explanation
from ringfence.fencing.topics.topic_log import Isolation, TopicLog
from ringfence.heartbeats.freshness import FreshnessWatch
from ringfence.projection import bad_records, event_rows, topic_memory
from ringfence.projection.backlog import AT_ONCE, Backlog
from ringfence.projection.change_notifications import Notice
from ringfence.projection.history_points import HistoryRecorder
from ringfence.projection.models import ClusterInfo
from ringfence.projection.positions import Superseded
from ringfence.projection.records import Record
from ringfence.projection.signals import housekeeping_due
from ringfence.projection.stalls import Stalls
from ringfence.projection.topic_projection import Projection
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

Notify = Callable[[Notice], None]

_WAIT_SECONDS = 0.05
_BATCH = 500
_YIELD_SECONDS = 0.2
_PRUNE_SECONDS = 300.0
_IDLE_MOVE_SECONDS = 0.25
_STALL_SECONDS = 15.0
_WATCH_SECONDS = 1.0
_BACKOFF = Backoff(0.2, 5)
_AFTER_A_DEFECT_SECONDS = 5.0


class Projector:
    """Runs the projections of the four topics in the calling thread. `notify` is told what changed."""

    def __init__(self, config: WorkerConfig, notify: Notify, ids: TopicIds | None = None) -> None:
        """`ids`: the topics that the cluster goes by, as this worker found them."""
        self._config = config
        self._notify = notify
        self._ids = ids
        self._told = False

    def run(self, stop: threading.Event) -> None:
        """Project until `stop`. Kafka or the database away: keeps trying, with growing pauses, and says so once."""
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
                    topic_memory.tell_loss(str(error))
                failures = 1 if time.monotonic() - began > 60 else failures + 1
                if not self._told:
                    log.warning("The projection waits: %s: %s", type(error).__name__, error)
                    self._told = True
                stop.wait(_BACKOFF.pause(failures))
            except Exception:
                log.exception("The projection met an error of its own; it starts over in five seconds")
                stop.wait(_AFTER_A_DEFECT_SECONDS)
            finally:
                close_old_connections()
        connection.close()

    def _topics(self) -> dict[str, str]:
        config = self._config
        return {
            "config": config.config_topic,
            "status": config.status_topic,
            "offsets": config.offsets_topic,
            "events": config.events_topic,
        }

    def _session(self, stop: threading.Event) -> None:
        logs: dict[str, tuple[TopicLog, Projection]] = {}
        try:
            for role, topic in self._topics().items():
                logs[role] = self._open(role, topic)
            self._store_cluster_id()
            if self._ids is not None:
                topic_memory.remember(self._ids)
            self._follow(logs, stop)
        finally:
            for reader, _ in logs.values():
                reader.close()

    def _open(self, role: str, topic: str) -> tuple[TopicLog, Projection]:
        # Status and events are not written in transactions: nobody's open one may hold their reader.
        isolation = Isolation.UNCOMMITTED if role in ("status", "events") else Isolation.COMMITTED
        reader = TopicLog(self._config.connection("ringfence-projection"), topic, isolation=isolation)
        try:
            projection = Projection(role, topic, reader.topic_id, self._ids)
        except BaseException:
            reader.close()
            raise
        reader.restart(projection.start)
        return reader, projection

    def _store_cluster_id(self) -> None:
        known = cluster_id(self._config.connection("ringfence-projection"), Deadline.after(10))
        protocol = self._config.settings.get("security.protocol", "PLAINTEXT").strip().upper()
        found = {"kafka_cluster_id": known, "kafka_bootstrap": self._config.bootstrap, "kafka_protocol": protocol}
        ClusterInfo.objects.update_or_create(id=1, defaults=found)

    def _follow(self, logs: Mapping[str, tuple[TopicLog, Projection]], stop: threading.Event) -> None:  # noqa: C901 - each step of a turn leaves something for the next
        prune_at, idle_at, look_at = 0.0, 0.0, time.monotonic() + _STALL_SECONDS
        stalls, history = Stalls(), HistoryRecorder()
        connection_ = self._config.connection("ringfence-projection")
        config_topic = self._config.config_topic
        end = end_offsets(connection_, config_topic, [0], Deadline.after(30))[0]
        compared = busy = False
        backlog = Backlog()
        watch = TopicWatch(connection_, {one.topic: one.topic_id for _, one in logs.values()}, _WATCH_SECONDS)
        partitions = {reader.topic: reader.partitions for reader, _ in logs.values()}
        freshness = FreshnessWatch(lambda: StableEnds(connection_, partitions))
        roles = {one.topic: role for role, (_, one) in logs.items()}
        while not stop.is_set():
            if odd := watch.look(time.monotonic()):
                self._refuse(odd, roles, logs)
            if not compared and logs["config"][0].positions[0] >= end:
                compared = True
                if gone := logs["config"][1].remove_others():
                    self._notify(Notice(tuple(gone)))
            touched: dict[str, set[str]] = {"config": set(), "status": set(), "offsets": set(), "events": set()}
            changed = other = False
            now = time.monotonic()
            move_idle = now >= idle_at
            if move_idle:
                idle_at = now + _IDLE_MOVE_SECONDS
            wait, busy = 0.0 if busy else _WAIT_SECONDS, False
            for role, (reader, projection) in logs.items():
                limit = AT_ONCE if role == "offsets" else _BATCH
                before = reader.ahead
                records: Sequence[Record] = reader.follow(wait if role == "config" else 0.0, limit)
                more = len(records) >= limit // 2  # is there: nobody waits
                busy = busy or more
                if role == "offsets" and (more or backlog):
                    backlog.add(records, time.monotonic())
                    if more and not backlog.is_due(time.monotonic()):
                        continue
                    records = backlog.take()
                reached = reader.positions
                # Markers move the position without a record: a waiter of the config topic wants to know at once.
                if records or ((role == "config" or move_idle) and projection.behind(reached)):
                    names = projection.apply(records, reached)
                    touched[role] |= names
                    changed, other = changed or bool(records), other or (bool(records) and not names)
                if reader.ahead is not before:
                    ahead = [one for one in reader.ahead if one.offset >= reached[one.partition]]
                    touched[role] |= projection.show(ahead, reached)
                    changed = True
            if backlog:
                stop.wait(
                    min(time.monotonic() - now, _YIELD_SECONDS)
                )  # half of the time belongs to who starts connectors
            freshness.look({(one.topic, p): at for reader, one in logs.values() for p, at in reader.positions.items()})
            if changed:
                self._recover()
                state = touched["config"] | touched["status"]
                self._notify(Notice(tuple(state), tuple((touched["offsets"] | touched["events"]) - state), other))
            if now >= look_at:
                now_ms = int(time.time() * 1000)
                if changed_health := stalls.look(now_ms) | bad_records.look(now_ms):
                    self._notify(Notice(tuple(changed_health)))
                history.look(now_ms)
                look_at = now + _STALL_SECONDS
            if now >= prune_at:
                event_rows.prune(int(time.time() * 1000))
                housekeeping_due.send(sender=None, now_ms=int(time.time() * 1000))
                prune_at = now + _PRUNE_SECONDS

    def _refuse(
        self,
        odd: Mapping[str, str | None],
        roles: Mapping[str, str],
        logs: Mapping[str, tuple[TopicLog, Projection]],
    ) -> None:
        """A topic is not the one that is followed. Its rows stay; a new status or events topic is followed again."""
        lost = [Loss(roles[name], name, logs[roles[name]][1].topic_id, found) for name, found in odd.items()]
        precious = [one for one in lost if one.role in PRECIOUS]
        if precious:
            raise TopicLost(explanation(precious))
        raise Retriable(f"Of the cluster's topics, {lost[0]}")

    def _recover(self) -> None:
        if self._told:
            log.info("The projection goes on")
            self._told = False
