"""The leader's thread: the seat in the group, the term while this worker owns it, commands and the reconcile loop.

One thread does all of it, so that the seat is kept only while the loop makes progress, and so that there is one writer.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from ringfence.encryption import StampSeal
from ringfence.engine.leader.abandoned_transactions import AbandonedTransactions
from ringfence.engine.leader.command_refused import CommandRefused
from ringfence.engine.leader.commands import Plan, restart
from ringfence.engine.leader.config_reloads import ConfigReloads
from ringfence.engine.leader.connector_instances import Instances
from ringfence.engine.leader.hanging_watch import Found, HangingWatch, report_ended
from ringfence.engine.leader.internal_requests import rotate_key
from ringfence.engine.leader.jobs import Job, Jobs, Written
from ringfence.engine.leader.members import live_members
from ringfence.engine.leader.offset_migration import OffsetMigration
from ringfence.engine.leader.reconcile_loop import Reconciler
from ringfence.engine.leader.resignation import Resignation
from ringfence.engine.leader.round_runner import RoundRunner
from ringfence.engine.plugins import PluginHost
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.engine.queries.hanging_transactions import topics_of
from ringfence.engine.queries.transactional_ids import ways_of
from ringfence.engine.status_log import StatusLog
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, NotLeader, Retriable
from ringfence.fencing.ids import ConnectorName, Incarnation, TaskId, WorkerId, member_client_id
from ringfence.fencing.kafka.membership import GroupMembership, GroupMetadata
from ringfence.fencing.leader.assignment import Member
from ringfence.fencing.leader.fence_targets import AdminAccess, ways
from ringfence.fencing.leader.round_plan import Round
from ringfence.fencing.leader.term import Term, TopicRecord
from ringfence.fencing.offsets.view import OffsetsView
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records import connector_of
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.stamps import Foreign, Stamper, StampWatch
from ringfence.fencing.topics.status import LeaderRecord, StatusState, WorkerRecord
from ringfence.fencing.topics.topic_ids import TopicIds, dumps, offsets_key
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_TICK_SECONDS = 0.05
_MEMBERS_SECONDS = 0.5
_AGAIN_SECONDS = 5.0
_CLAIM_SECONDS = 10.0
_TRY_SECONDS = 8.0
_DOUBT_SECONDS = 20.0
_AGAIN_POLL_SECONDS = 0.3
_TURNING_SECONDS = 30.0
_RELOADED = "A file that its configuration refers to was changed (config.action.reload)"
_NOT_LEADING = "Cannot complete request because this worker does not lead (any more). Send the request again"
_IN_DOUBT = (
    "Request timed out. The config topic was being written when this worker lost it ({error}). Whether the request was "
    "carried out is unknown: look again before sending it once more."
)


class Leader:
    """A candidate for leadership while the worker lives. `run` is its thread; the rest may be called by any."""

    def __init__(
        self,
        config: WorkerConfig,
        worker: WorkerRecord,
        plugins: PluginHost,
        reporter: Reporter,
        view: OffsetsView | None = None,
        ids: TopicIds | None = None,
    ) -> None:
        """`ids`: the cluster's topics, to be remembered in them."""
        self._config = config
        self._ids = ids
        self._worker = worker
        self._reporter = reporter
        self._connection = config.connection(f"ringfence-{worker.worker}-leader")
        self._jobs = Jobs()
        self._reconfigure: queue.SimpleQueue[ConnectorName] = queue.SimpleQueue()
        self._reloads = ConfigReloads(config.settings)
        self._status = StatusLog(config.connection(f"ringfence-{worker.worker}-status"), config.status_topic)
        self.offsets = ConnectorOffsets(config, f"ringfence-{worker.worker}-offsets", view)
        self.instances = Instances(plugins, self.offsets, self.wake, self._tell_upgrade)
        graceful = config.number("task.shutdown.graceful.timeout.ms") / 1000
        self._rounds = RoundRunner(self._ways, self._topics, graceful, self.wake, OffsetMigration(self.offsets))
        self._abandoned = AbandonedTransactions(config.group_id, self._ways_now, self.wake)
        self._hanging = HangingWatch(config, self._tell_hanging)
        self._gained: GroupMetadata | None = None
        self._term: Term | None = None
        self._reconciler: Reconciler | None = None
        self._members: list[Member] = []
        self._members_at = 0.0
        self._seat: GroupMembership | None = None
        self.hand_over = Resignation(worker, reporter, self.statuses)
        self.ready = threading.Event()
        """Set while this worker leads and takes commands."""
        self.failure: str | None = None
        self._foreign: set[int] = set()
        self._turned_at = 0.0

    def leads_now(self) -> bool:
        """Whether it leads, and its loop goes round."""
        return self.ready.is_set() and time.monotonic() - self._turned_at < _TURNING_SECONDS

    def wake(self) -> None:
        """Something has come to an end: do not wait for the next tick."""
        self._jobs.wake()

    def state(self) -> ClusterState:
        """The config topic as the term knows it. Raises `CommandRefused` where this worker does not lead."""
        term = self._term
        if term is None or not self.ready.is_set():
            raise CommandRefused(409, _NOT_LEADING, passing=True)
        return term.state

    def _ways(self, due: Round) -> list[AdminAccess]:
        """With the old generation's own admin credentials first."""
        term = self._term
        config = term.state.connector(due.connector).config if term else None
        return ways(due.target, config, self._connection, self._config.settings)

    def _topics(self, due: Round) -> set[str]:
        """Where the old generation's tasks wrote, as far as anybody knows: active topics, and offsets topics."""
        return topics_of(self._status.state.topics.get(due.connector, ()), due.target or {}, self._config)

    def _ways_now(self, name: ConnectorName) -> list[AdminAccess]:
        """To where the connector's tasks write now."""
        term = self._term
        if term is None:
            raise NotLeader("This worker no longer leads: the next leader does it")
        return ways_of(term.state.connector(name), self._config)

    @property
    def worker_config(self) -> WorkerConfig:
        """The settings of this worker."""
        return self._config

    @property
    def members(self) -> list[Member]:
        """The live workers, as the leader saw them last."""
        return self._members

    def statuses(self) -> StatusState:
        """The status topic, folded."""
        return self._status.state

    def mark_restarting(self, name: ConnectorName, tasks: list[int]) -> None:
        """The next attempts of these tasks are a restart that somebody asked for."""
        if self._reconciler is not None:
            self._reconciler.restarting.update(TaskId(name, task) for task in tasks)

    def hurry(self, name: ConnectorName) -> None:
        """Try a round that failed again now."""
        self._rounds.hurry(name)

    def reconfigure(self, name: str) -> None:
        """A connector instance asked for new task configurations."""
        self._reconfigure.put(ConnectorName(name))
        self.wake()

    def note_error(self, name: str, trace: str) -> None:
        """A connector instance raised an error, or could not be started again."""
        self.instances.note_error(ConnectorName(name), trace)
        self.wake()

    def submit(self, plan: Plan, deadline: Deadline, expired: Callable[[], bool]) -> "Future[Written]":
        """Write what the plan answers. `expired` is asked right before the write, so by then nothing is done late."""
        job = Job(plan, deadline, expired)
        self._jobs.put(job)
        return job.result

    def run(self, stop: threading.Event) -> None:
        """Until `stop`. Leaves the group at the end, so that the next leader need not wait for a session to run out."""
        try:
            while not stop.is_set():
                try:
                    self._sit(stop)
                    self.hand_over.await_successor(self._status.poll, stop)
                except Exception as error:
                    # The root of the thread. What cannot be read or written here another worker may be able to: the
                    # seat is left (KIP-618, "Leader access to config topic"), and taken again after a pause.
                    log.exception("This worker cannot lead; it has left the group for %g s", _AGAIN_SECONDS)
                    self.failure = str(error)
                    self._reporter.event("leader", worker=self._worker.worker, stage="failed", message=self.failure)
                    stop.wait(_AGAIN_SECONDS)
        finally:
            self.instances.close()
            self._rounds.close()
            self._abandoned.close()
            self._hanging.close()
            self._status.close()

    def _sit(self, stop: threading.Event) -> None:
        client_id = member_client_id(self._worker.worker, self._worker.incarnation)
        self._seat = GroupMembership(
            self._connection,
            self._config.group_id,
            self._config.config_topic,
            client_id,
            self._gain,
            self._lose,
            session_timeout_ms=self._config.number("session.timeout.ms"),
            max_poll_interval_ms=self._config.number("max.poll.interval.ms"),
        )
        try:
            while not stop.is_set() and not self.hand_over.due():
                self._turn()
        finally:
            self._gained = None
            self._stand_down("it leaves the group")
            self._seat.close()

    def _gain(self, metadata: GroupMetadata) -> None:
        self._gained = metadata

    def _lose(self) -> None:
        self._gained = None
        self._stand_down("the partition moved to another worker")

    def _turn(self) -> None:
        assert self._seat is not None
        self._turned_at = time.monotonic()
        try:
            self._seat.poll(_AGAIN_POLL_SECONDS if self._jobs.waiting else 0)
            self._status.poll()
            self._lead()
            self._work()
        except NotLeader as error:
            self._stand_down(str(error))
        except Retriable as error:
            log.warning("The leader waits: %s", error)

    def _lead(self) -> None:
        """Begin a term, or go on under a new generation, where the group gave this worker the partition."""
        metadata = self._gained
        if metadata is None:
            return
        if self._term is not None:
            if self._term.generation != metadata.generation:
                self._term.recapture(metadata)
            return
        seat = self._seat
        assert seat is not None
        seal, topic = StampSeal(), self._config.config_topic
        watch = StampWatch(topic, seal)
        term = Term(
            self._connection,
            self._config.group_id,
            topic,
            metadata,
            lambda: seat.owns,
            stamper=Stamper(seal, f"{self._worker.worker}/{self._worker.incarnation}/{metadata.generation}"),
            on_records=lambda records: self._tell_foreign(watch.look(records)),
        )
        try:
            term.claim(Deadline.after(_CLAIM_SECONDS))
            self._status.refresh(Deadline.after(20))
            self._remember_topics(term)
        except FencingError:
            term.close()
            raise
        self._term = term
        self._reconciler = Reconciler(
            term,
            self._config.group_id,
            self._worker.worker,
            self._reporter,
            self._rounds,
            self._abandoned,
            self.instances,
            self.statuses,
            self._config.settings,
        )
        me, now, tracking = self._worker, self._reporter.now_ms(), self._config.flag("topic.tracking.enable")
        self._reporter.status(LeaderRecord(me.worker, me.incarnation, metadata.generation, now, tracking))
        self._reporter.event("leader", worker=self._worker.worker, stage="elected", message="")
        log.info("Worker %s leads, group generation %d", self._worker.worker, metadata.generation)
        self.failure = None
        self.ready.set()

    def _remember_topics(self, term: Term) -> None:
        """In three of the topics, so that the loss of any is known from the others."""
        ids = self._ids
        if ids is None:
            return
        told = term.state.topic_ids
        if told is None or told.version < ids.version:
            copy = TopicRecord(self._config.offsets_topic, offsets_key(self._config.group_id), dumps(ids))
            term.write(lambda _state: [ids, copy], Deadline.after(_TRY_SECONDS))
        told = self._status.state.topic_ids
        if told is None or told.version < ids.version:
            self._reporter.status(ids)

    def _stand_down(self, reason: str) -> None:
        self.ready.clear()
        term, self._term, self._reconciler = self._term, None, None
        if term is not None:
            log.info("Worker %s leads no more: %s", self._worker.worker, reason)
            self._reporter.event("leader", worker=self._worker.worker, stage="stood down", message=reason)
            term.close()
        self._jobs.refuse(lambda: CommandRefused(409, _NOT_LEADING, passing=True))

    def _work(self) -> None:
        """Wait a tick for commands; carry them out; reconcile."""
        job = self._jobs.next(_TICK_SECONDS)
        if self._term is None or self._reconciler is None:
            if job is not None:
                job.result.set_exception(CommandRefused(409, _NOT_LEADING, passing=True))
            return
        if job is not None:
            self._carry_out(self._term, self._reconciler, job)
        while not self._reconfigure.empty():
            self._reconciler.reconfigure(self._reconfigure.get_nowait())
        if time.monotonic() - self._members_at > _MEMBERS_SECONDS:
            self._members = live_members(self._connection, self._config.group_id, self._status.state, Deadline.after(5))
            self._members_at = time.monotonic()
        rotate_key(self._term, self._config.session_keys, self._reporter.now_ms())
        self._reconciler.step(self._members)
        self._hanging.step(self._term.state, self._status.state.topics)
        for name in self._reloads.due(self._term.state.existing(), time.monotonic()):
            self._reload(name, self._reconciler)

    def _tell_hanging(self, found: list[Found]) -> None:
        for one in found:
            if one.ended:
                connector = one.connectors[0] if len(one.connectors) == 1 else ""
                report_ended(self._reporter, connector, one.one, "leader")
        left = [one.describe() for one in found if not one.ended]
        message = f"{len(left)} left" if left else "none"
        self._reporter.event("hanging", stage="found", hanging=left, message=message)

    def _tell_foreign(self, found: list[Foreign]) -> None:
        """Once for each worker that leads: nothing else remembers it."""
        topic = self._config.config_topic
        for one in found:
            if one.offset in self._foreign:
                continue
            self._foreign.add(one.offset)
            text = (
                f"Topic {topic}, offset {one.offset}, key {one.key}: no leader of this cluster wrote that record "
                f"({one.why}). It counts nevertheless. Look who may write to the topic, and correct what it says"
            )
            log.error("%s", text)
            connector = connector_of(one.key.encode()) or ""
            self._reporter.event("foreign", connector, offset=one.offset, key=one.key, message=text)

    def _tell_upgrade(self, name: ConnectorName, text: str) -> None:
        self._reporter.event("command", name, kind="start", outcome="done", user="", offset=-1, message=text)

    def _reload(self, name: ConnectorName, reconciler: Reconciler) -> None:
        """Values of a config provider have changed: as if somebody had asked for a restart of it all."""
        log.info("Connector %s restarts: a file that its configuration refers to was changed", name)
        self._reporter.event("command", name, kind="restart", outcome="done", user="", offset=-1, message=_RELOADED)
        reconciler.restarting.update(TaskId(name, task) for task in self.state().connector(name).placements)
        self.instances.restart(name)
        self.submit(restart(name, True, False, self.statuses()), Deadline.after(_AGAIN_SECONDS), lambda: False)

    def _carry_out(self, term: Term, reconciler: Reconciler, job: Job) -> None:
        before = term.state
        # One try must not take long: a group that rebalances waits for this member, and the write for the group.
        limit, doubt = (Deadline.after(job.deadline.slice(seconds)) for seconds in (_TRY_SECONDS, _DOUBT_SECONDS))
        try:
            state, offset = term.write(job.due, limit, doubt)  # type: ignore[arg-type]
        except NotLeader as error:
            moved = CommandRefused(409, f"{_NOT_LEADING} ({error})", passing=True)
            job.result.set_exception(CommandRefused(500, _IN_DOUBT.format(error=error)) if term.in_doubt else moved)
            raise
        except CommandRefused as refusal:
            job.result.set_exception(refusal)
            return
        except FencingError as error:
            late = "Request timed out: nothing was changed. " if isinstance(error, Retriable) else ""
            failed = f"{late}The config topic could not be read or written: {error}"
            job.result.set_exception(CommandRefused(500, _IN_DOUBT.format(error=error) if term.in_doubt else failed))
            raise
        if offset >= 0:
            reconciler.announce(before, state)
        job.result.set_result(Written(state, offset))


def identity(
    worker: str, incarnation: str, config: WorkerConfig, slots: int, version: str, now_ms: int
) -> WorkerRecord:
    """This worker's record."""
    return WorkerRecord(WorkerId(worker), Incarnation(incarnation), config.mode, slots, version, now_ms)
