"""The leader's thread: the seat in the group, the term while this worker owns it, commands and the reconcile loop.

One thread does all of it, so that the seat is kept only while the loop makes progress, and so that there is one writer.
"""

import logging
import queue
import threading
import time
from concurrent.futures import Future
from functools import partial

from ringfence.engine.leader.abandoned_transactions import AbandonedTransactions
from ringfence.engine.leader.config_reloads import ConfigReloads
from ringfence.engine.leader.connector_instances import Instances
from ringfence.engine.leader.foreign_records import ForeignRecords
from ringfence.engine.leader.hanging_watch import HangingWatch, report_found
from ringfence.engine.leader.internal_requests import rotate_key
from ringfence.engine.leader.job_writing import NOT_LEADING, carry_out_all
from ringfence.engine.leader.jobs import Job, Jobs
from ringfence.engine.leader.members import live_members
from ringfence.engine.leader.offset_migration import OffsetMigration
from ringfence.engine.leader.plans import Plan
from ringfence.engine.leader.reconcile_loop import Reconciler
from ringfence.engine.leader.resignation import Resignation
from ringfence.engine.leader.restart_plans import restart
from ringfence.engine.leader.round_runner import RoundRunner
from ringfence.engine.leader.topics_remembered import remember_topics
from ringfence.engine.leader.written import Written
from ringfence.engine.plugins import PluginHost
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.engine.queries.hanging_transactions import topics_of
from ringfence.engine.queries.transactional_ids import ways_of
from ringfence.engine.status_log import StatusLog
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, NotLeader, Retriable
from ringfence.fencing.ids import ConnectorName, TaskId, member_client_id
from ringfence.fencing.kafka.membership import GroupMembership, GroupMetadata
from ringfence.fencing.leader.assignment import Member
from ringfence.fencing.leader.fence_targets import AdminAccess, ways
from ringfence.fencing.leader.round_plan import Round
from ringfence.fencing.leader.term import Term
from ringfence.fencing.offsets.view import OffsetsView
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import LeaderRecord, StatusState, WorkerRecord
from ringfence.fencing.topics.topic_ids import TopicIds
from ringfence.requests.refused import Refused
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_TICK_SECONDS = 0.05
_MEMBERS_SECONDS = 0.5
_AGAIN_SECONDS = 5.0
_RELOAD_SECONDS = 60.0
_CLAIM_SECONDS = 10.0
_TURNING_SECONDS = 30.0
_RELOADED = "A file that its configuration refers to was changed (config.action.reload)"


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
        self.worker_config = config
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
        self._hanging = HangingWatch(config, partial(report_found, reporter))
        self._gained: GroupMetadata | None = None
        self._term: Term | None = None
        self._reconciler: Reconciler | None = None
        self.members: list[Member] = []
        """The live workers, as the leader saw them last."""
        self._looked_at = 0.0
        self._membership: GroupMembership | None = None
        self.hand_over = Resignation(worker, reporter, self.statuses)
        self.ready = threading.Event()
        """Set while this worker leads and takes commands."""
        self.failure: str | None = None
        self._foreign = ForeignRecords(config.config_topic, reporter)
        self._turned_at = 0.0

    def leads_now(self) -> bool:
        """Whether it leads, and its loop goes round."""
        return self.ready.is_set() and time.monotonic() - self._turned_at < _TURNING_SECONDS

    def wake(self) -> None:
        """Something has come to an end: do not wait for the next tick."""
        self._jobs.wake()

    def state(self) -> ClusterState:
        """The config topic as the term knows it. Raises `Refused` where this worker does not lead."""
        term = self._term
        if term is None or not self.ready.is_set():
            raise Refused(409, NOT_LEADING, passing=True)
        return term.state

    def _ways(self, due: Round) -> list[AdminAccess]:
        """With the old generation's own admin credentials first."""
        term = self._term
        config = term.state.connector(due.connector).config if term else None
        return ways(due.target, config, self._connection, self.worker_config.settings)

    def _topics(self, due: Round) -> set[str]:
        """Where the old generation's tasks wrote, as far as anybody knows: active topics, and offsets topics."""
        return topics_of(self._status.state.topics.get(due.connector, ()), due.target or {}, self.worker_config)

    def _ways_now(self, name: ConnectorName) -> list[AdminAccess]:
        """To where the connector's tasks write now."""
        term = self._term
        if term is None:
            raise NotLeader("This worker no longer leads: the next leader does it")
        return ways_of(term.state.connector(name), self.worker_config)

    def statuses(self) -> StatusState:
        """The status topic, folded."""
        return self._status.state

    def mark_restarting(self, name: ConnectorName, tasks: list[int]) -> None:
        """The next attempts of these tasks are a restart that somebody asked for."""
        if self._reconciler is not None:
            self._reconciler.statuses.restarting.update(TaskId(name, task) for task in tasks)

    def retry_round(self, name: ConnectorName) -> None:
        """Try a round that failed again now."""
        self._rounds.retry_now(name)

    def reconfigure(self, name: str) -> None:
        """A connector instance asked for new task configurations."""
        self._reconfigure.put(ConnectorName(name))
        self.wake()

    def note_error(self, name: str, trace: str) -> None:
        """A connector instance raised an error, or could not be started again."""
        self.instances.note_error(ConnectorName(name), trace)
        self.wake()

    def submit(self, plan: Plan, deadline: Deadline) -> "Future[Written]":
        """Write what the plan answers. The deadline is asked right before the write, so that nothing is done late."""
        job = Job(plan, deadline)
        self._jobs.put(job)
        return job.result

    def run(self, stop: threading.Event) -> None:
        """Until `stop`. Leaves the group at the end, so that the next leader need not wait for a session to run out."""
        try:
            while not stop.is_set():
                try:
                    self._run_membership(stop)
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

    def _run_membership(self, stop: threading.Event) -> None:
        client_id = member_client_id(self._worker.worker, self._worker.incarnation)
        self._membership = GroupMembership(
            self._connection, self.worker_config.group_id, self.worker_config.config_topic, client_id,
            self._gain, self._lose,
            session_timeout_ms=self.worker_config.number("session.timeout.ms"),
            max_poll_interval_ms=self.worker_config.number("max.poll.interval.ms"),
        )  # fmt: skip
        try:
            while not stop.is_set() and not self.hand_over.due():
                self._turn()
        finally:
            self._gained = None
            self._stand_down("it leaves the group")
            self._membership.close()

    def _gain(self, metadata: GroupMetadata) -> None:
        self._gained = metadata

    def _lose(self) -> None:
        self._gained = None
        self._stand_down("the partition moved to another worker")

    def _turn(self) -> None:
        assert self._membership is not None
        self._turned_at = time.monotonic()
        try:
            self._membership.poll(0)
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
        membership = self._membership
        assert membership is not None
        writer = f"{self._worker.worker}/{self._worker.incarnation}/{metadata.generation}"
        stamper, on_records = self._foreign.watch_term(writer)
        term = Term(
            self._connection, self.worker_config.group_id, self.worker_config.config_topic, metadata,
            lambda: membership.owns, stamper=stamper, on_records=on_records, vault=self.worker_config.vault,
        )  # fmt: skip
        try:
            term.claim(Deadline.after(_CLAIM_SECONDS))
            self._status.refresh(Deadline.after(20))
            if self._ids is not None:
                remember_topics(self._ids, self.worker_config, term, self._status.state, self._reporter)
        except FencingError:
            term.close()
            raise
        self._term = term
        self._reconciler = Reconciler(
            term, self.worker_config.group_id, self._worker.worker, self._reporter, self._rounds, self._abandoned,
            self.instances, self.statuses, self.worker_config.settings,
        )  # fmt: skip
        me, now, tracking = self._worker, self._reporter.now_ms(), self.worker_config.flag("topic.tracking.enable")
        self._reporter.status(LeaderRecord(me.worker, me.incarnation, metadata.generation, now, tracking))
        self._reporter.event("leader", worker=self._worker.worker, stage="elected", message="")
        log.info("Worker %s leads, group generation %d", self._worker.worker, metadata.generation)
        self.failure = None
        self.ready.set()

    def _stand_down(self, reason: str) -> None:
        self.ready.clear()
        term, self._term, self._reconciler = self._term, None, None
        if term is not None:
            log.info("Worker %s leads no more: %s", self._worker.worker, reason)
            self._reporter.event("leader", worker=self._worker.worker, stage="stood down", message=reason)
            term.close()
        self._jobs.refuse(lambda: Refused(409, NOT_LEADING, passing=True))

    def _work(self) -> None:
        """Wait a tick for commands; carry them out; reconcile."""
        job = self._jobs.next(_TICK_SECONDS)
        if self._term is None or self._reconciler is None:
            if job is not None:
                job.result.set_exception(Refused(409, NOT_LEADING, passing=True))
            return
        if job is not None:
            carry_out_all(job, self._jobs, self._term, self._reconciler.statuses.announce)
        while not self._reconfigure.empty():
            self._reconciler.reconfigure(self._reconfigure.get_nowait())
        if time.monotonic() - self._looked_at > _MEMBERS_SECONDS:
            self.members = live_members(
                self._connection, self.worker_config.group_id, self._status.state, Deadline.after(5)
            )
            self._looked_at = time.monotonic()
        rotate_key(self._term, self.worker_config.session_keys, self._reporter.now_ms())
        self._reconciler.step(self.members, self._jobs.waiting)
        self._hanging.step(self._term.state, self._status.state.topics)
        self.instances.look_for_upgrades(time.monotonic())
        for name in self._reloads.due(self._term.state.existing(), time.monotonic()):
            self._reload(name, self._reconciler)

    def _tell_upgrade(self, name: ConnectorName, text: str) -> None:
        self._reporter.event("command", name, kind="start", outcome="done", user="", offset=-1, message=text)

    def _reload(self, name: ConnectorName, reconciler: Reconciler) -> None:
        """Values of a config provider have changed: as if somebody had asked for a restart of it all."""
        log.info("Connector %s restarts: a file that its configuration refers to was changed", name)
        self._reporter.event("command", name, kind="restart", outcome="done", user="", offset=-1, message=_RELOADED)
        reconciler.statuses.restarting.update(TaskId(name, task) for task in self.state().connector(name).placements)
        self.instances.restart(name)
        self.submit(restart(name, True, False, self.statuses()), Deadline.after(_RELOAD_SECONDS))
