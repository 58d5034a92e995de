"""A worker's threads beside leader and tasks: its heartbeat, its place in the projection's group, its view of Redis,
its watch on the machine's clock.

The leader hands over if it does not reach Redis: commands come through Redis, so it would get none. Workers report in
their heartbeats what they reach. All of them read it from the database, which needs neither Redis nor another worker.
The leader resigns only if another live member reports that it reaches Redis. If all members are cut off, or if the
database does not answer, nothing changes. The group chooses the next leader, so another member that is cut off may lead
first, and resign in turn. After each hand-over, a member waits longer before the next one, so members with unstable
connections do not pass the leadership back and forth.

The same pause follows a hand-over that nobody took: while it waited for a successor, the cluster had no leader for
up to 20 s, so trying again at once would leave it without one most of the time.

The worker ends when the machine's clock is set back. librdkafka waits until a time of day (C11 has no other wait). If
the clock is set back, the current waits last longer by as much: threads, heartbeats and polls hang for minutes, and
nothing wakes them. A process that starts after the step has no such wait. So the worker ends at once, and its
supervisor starts it again. Measured with a step of ten minutes: docs/exactly-once.md.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from redis import RedisError

from ringfence import django_apps
from ringfence.engine.leader.commands import Ping
from ringfence.engine.leader.leader_thread import Leader
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import SYSTEM_CLOCK, Clock, Deadline
from ringfence.fencing.errors import FencingError
from ringfence.fencing.ids import member_client_id
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.membership import GroupMembership
from ringfence.fencing.kafka.topic_admin import cluster_id
from ringfence.fencing.leader.next_placement import LiveWorker
from ringfence.fencing.topics.config_log import Version
from ringfence.fencing.topics.status import WorkerRecord
from ringfence.fencing.topics.topic_ids import TopicIds
from ringfence.heartbeats.cluster_health import WorkerHeartbeat
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig


class ProjectionMembership:
    """Runs the projector on the worker that the group has chosen. If two run at once, they do no harm."""

    def __init__(
        self,
        config: WorkerConfig,
        worker: WorkerRecord,
        ids: TopicIds | None = None,
        before_write: Callable[[], None] = lambda: None,
        find_version: Callable[[str], Version | None] = lambda _topic_id: None,
    ) -> None:
        """before_write, find_version: see `Projector`."""
        self._config = config
        self._ids = ids
        self._before_write = before_write
        self._find_version = find_version
        self._client_id = member_client_id(worker.worker, worker.incarnation)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def run(self, stop: threading.Event) -> None:
        """Run until `stop`."""
        django_apps.load()
        membership = GroupMembership(
            self._config.connection(self._client_id),
            self._config.projection_group,
            self._config.config_topic,
            self._client_id,
            lambda _metadata: self._begin(),
            self._end,
            session_timeout_ms=self._config.number("session.timeout.ms"),
            max_poll_interval_ms=self._config.number("max.poll.interval.ms"),
        )
        try:
            while not stop.is_set():
                membership.poll(0.5)
        finally:
            self._end()
            membership.close()

    def _begin(self) -> None:
        if self._thread is not None and self._thread.is_alive() and not self._over.is_set():
            return
        from ringfence.projection.change_notifications import RedisNotices
        from ringfence.projection.projector import Projector

        self._over = threading.Event()
        projector = Projector(self._config, RedisNotices(), self._ids, self._before_write, self._find_version)
        self._thread = threading.Thread(target=projector.run, args=(self._over,), name="projector", daemon=True)
        self._thread.start()

    def _end(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(10)


log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_PATIENCE_SECONDS = 5.0
"""How long it must be cut off, without interruption, before it resigns: a restart of Redis takes a moment."""
_HAND_OVER_SECONDS = 30.0
_BACKOFF = Backoff(60.0, 3600.0)
_FORGIVEN_SECONDS = 3600.0


def reaches_redis(beats: Iterable[WorkerHeartbeat], members: Iterable[LiveWorker], incarnation: str) -> list[str]:
    """Return the other live members that reach Redis if this one does not; otherwise none."""
    live = {beat.incarnation: beat for beat in beats if beat.live}
    if incarnation not in live or not live[incarnation].redis_error:
        return []
    others = [live[member.incarnation] for member in members if member.incarnation in live]
    return [beat.worker for beat in others if not (beat.redis_error or beat.kafka_error)]


class RedisWatch:
    """The watch of one worker. `run` is the body of its thread."""

    def __init__(
        self,
        leader: Leader,
        incarnation: str,
        read: Callable[[], Sequence[WorkerHeartbeat]],
        backoff: Backoff = _BACKOFF,
    ) -> None:
        """read: returns the heartbeats; [] if the database does not answer."""
        self._leader = leader
        self._incarnation = incarnation
        self._read = read
        self._backoff = backoff
        self._since: float | None = None
        self._times = 0
        self._last = 0.0
        self._not_before = 0.0

    def run(self, stop: threading.Event) -> None:
        """Run until `stop`."""
        while not stop.wait(_LOOK_SECONDS):
            self.look(time.monotonic())

    def look(self, now: float) -> None:
        """Resign if that is due; return when another member leads, or when none has taken over."""
        able: list[str] = []
        if self._leader.leads_now():
            able = reaches_redis(self._read(), self._leader.members, self._incarnation)
        if not able:
            self._since = None
            return
        self._since = now if self._since is None else self._since
        if now - self._since >= _PATIENCE_SECONDS and now >= self._not_before:
            self._hand_over(able, now)

    def _hand_over(self, able: Sequence[str], now: float) -> None:
        self._times = 1 if now - self._last > _FORGIVEN_SECONDS else self._times + 1
        self._last, self._not_before = now, now + self._backoff.pause(self._times)
        self._since = None
        log.warning("This leader does not reach Redis, and %s: it hands over", f"{', '.join(able)} can")
        try:
            successor = self._leader.hand_over.ask(self._leader.members, Deadline.after(_HAND_OVER_SECONDS))
        except Refusal as refusal:
            log.warning("The leadership was not handed over: %s", refusal)
        else:
            log.warning("Worker %s leads now", successor)


_KAFKA_SECONDS = 2.0


def run_heartbeat(
    worker: WorkerRecord, connection: Connection, leads: Callable[[], bool], stop: threading.Event
) -> None:
    """Send heartbeats until `stop`. It is the body of a thread."""
    django_apps.load()
    from ringfence.heartbeats.cluster_view import probe_redis
    from ringfence.heartbeats.heartbeat_writer import HealthProbe, HeartbeatWriter

    def probe_kafka() -> str:
        try:
            cluster_id(connection, Deadline.after(_KAFKA_SECONDS))
        except FencingError as error:
            return str(error)
        return ""

    HeartbeatWriter(worker.worker, worker.incarnation, leads, HealthProbe(probe_kafka), HealthProbe(probe_redis)).run(
        stop
    )


def watch_redis(worker: WorkerRecord, leader: Leader, stop: threading.Event) -> None:
    """Until `stop`, hand over the leadership if this leader does not reach Redis and another member does. It is the
    body of a thread.
    """
    django_apps.load()
    from django.db import Error as DatabaseError
    from django.db import close_old_connections

    from ringfence.heartbeats.cluster_health import WorkerHeartbeat
    from ringfence.heartbeats.cluster_view import read

    def beats() -> list[WorkerHeartbeat]:
        try:
            return read()[0]
        except DatabaseError:
            return []  # it is unknown who reaches Redis: the leader stays
        finally:
            close_old_connections()

    RedisWatch(leader, worker.incarnation, beats).run(stop)


_LEADER_SECONDS: Final = 5.0


def find_leader(leader: Leader) -> bool | None:
    """Return whether this worker leads, or another one; None if Redis does not answer, so that it is unknown."""
    if leader.ready.is_set():
        return True
    from ringfence import dispatch, transport
    from ringfence.heartbeats.cluster_view import look

    vitals = look.vitals()
    if vitals.is_known:
        return bool(vitals.leader)
    try:
        transport.results.ping()
        dispatch.command(Ping(), timeout=_LEADER_SECONDS)
    except RedisError:
        return None
    except dispatch.Refusal as refused:
        log.info("No leader answers: %s", refused.message)
        return None if refused.status == 503 and refused.retry else False
    return True


MOST_SECONDS: Final = 15.0
"""The longest step that is tolerated: a restart stops the tasks for about as long."""
_CLOCK_SECONDS: Final = 0.5


class ClockWatch:
    """Compares the wall clock with the monotonic one. Not shared between threads."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._between = self._measure()

    def _measure(self) -> float:
        return self._clock.wall() - self._clock.monotonic()

    def step_back(self) -> float:
        """Return how many seconds the clock was set back since the last call; 0 for less than `MOST_SECONDS`."""
        before, self._between = self._between, self._measure()
        step = before - self._between
        return step if step > MOST_SECONDS else 0.0


def watch_clock(stop: threading.Event, end: Callable[[], None], clock: Clock = SYSTEM_CLOCK) -> None:
    """Run until `stop`, or until the clock is set back; then call `end`. It is the body of a thread."""
    clocks = ClockWatch(clock)
    while not stop.wait(_CLOCK_SECONDS):
        if step := clocks.step_back():
            log.error(
                "This machine's clock was set back by %.0f s. Kafka's client would wait for as long, so this "
                "worker ends now: started again, it continues from what is committed. Let the time service correct a "
                "running machine slowly",
                step,
            )
            end()
            return


END_SECONDS: Final = 10.0
"""How long all threads together have to end."""
LOST_SECONDS: Final = 2.0
"""The same if a topic is lost: then some of them ask brokers for it, and end only when they give up."""


def join_all(threads: Iterable[threading.Thread], seconds: float) -> list[str]:
    """Wait at most `seconds` for all of them together. Return the names of those that still run."""
    all_threads, deadline = list(threads), Deadline.after(seconds)
    for thread in all_threads:
        thread.join(deadline.remaining)
    late = [thread.name for thread in all_threads if thread.is_alive()]
    if late:
        log.info("These threads are still busy and end with the process: %s", ", ".join(late))
    return late
