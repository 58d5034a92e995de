"""The leader's thread: the membership in the group, the term while this worker leads, commands and the reconcile loop.

One thread does all of it: so the worker only stays the leader while the loop makes progress, and there is one writer.
Plans wait for it (`Jobs`): those of an account in order, and accounts in turn.

To hand over the leadership, the leader leaves the group, waits until another worker leads, and joins again. Its tasks
keep running. They do not need the membership, and its status record says that it will be back soon
(`WorkerRecord.away_until_ms`), so the next leader does not place them elsewhere. The group chooses the next leader.
"""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Final

from ringfence import telemetry
from ringfence.encryption import KeyringSigner
from ringfence.engine.config_topic import ConfigTopic, admit, refuse_to_lead
from ringfence.engine.leader.commands.command import Plan, Records, WriteResult
from ringfence.engine.leader.commands.lifecycle import plan_restart
from ringfence.engine.leader.connector_instances import LeaderInstances
from ringfence.engine.leader.fencing_round_runner import RoundRunner
from ringfence.engine.leader.hanging_watch import AbandonedTransactions, HangingWatch, report_found
from ringfence.engine.leader.members import ForeignRecords, MemberWatch, find_members
from ringfence.engine.leader.offset_migration import OffsetMigration
from ringfence.engine.leader.reconcile_loop import Reconciler
from ringfence.engine.leader.reconfiguration_requests import ConfigReloads
from ringfence.engine.platform_topics import remember_topics
from ringfence.engine.plugins import PluginHost
from ringfence.engine.queries.connector_offsets import ConnectorOffsets
from ringfence.engine.queries.hanging_transactions import admin_access_of, topics_of
from ringfence.engine.status_log import StatusLog
from ringfence.fencing import request_context, stages
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, NotLeader, Retriable
from ringfence.fencing.ids import ConnectorName, TaskId, WorkerId, member_client_id, task_transactional_id
from ringfence.fencing.kafka.membership import GroupMembership, GroupMetadata
from ringfence.fencing.leader.failure_detector import PlaceCounts, take_out
from ringfence.fencing.leader.fence_targets import AdminAccess, list_admin_access
from ringfence.fencing.leader.fencing_round import Round
from ringfence.fencing.leader.next_placement import LiveWorker, Place
from ringfence.fencing.leader.term import Term
from ringfence.fencing.offsets.view import OffsetsView
from ringfence.fencing.request_context import RequestContext
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.leader_stamps import Stamper
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import LeaderRecord, StatusState, TaskStatus, WorkerRecord
from ringfence.fencing.topics.topic_ids import TopicIds
from ringfence.requests.request import Refusal
from ringfence.worker_config import WorkerConfig

_MOST_REMEMBERED: Final = 1_000
"""Accounts that were served."""


@dataclass(slots=True)
class Job:
    """A plan with its deadline, and the future for its result."""

    plan: Plan
    deadline: Deadline
    account: str = ""
    """Whose it is; "" for the platform's own."""
    result: "Future[WriteResult]" = field(default_factory=Future)
    put_at: float = field(default_factory=time.perf_counter)
    request: RequestContext = field(default_factory=request_context.current)
    """The one that the thread works for that made the job."""
    answered: threading.Event | None = None
    """Set once its sender has its answer, or waits for what the leader does next. None if nobody waits."""

    def due(self, state: ClusterState) -> Records:
        """Return the plan's records. Raises `Refusal` if the deadline has passed."""
        if self.deadline.expired:
            raise Refusal(500, "Request timed out before it was carried out: nothing was changed. Send it again")
        return self.plan(state)


class Jobs:
    """A queue. Any thread puts jobs in; the leader's thread takes them. The next one is of the account that was served
    the longest ago: nobody waits behind those who were served before, however many jobs they send.
    """

    def __init__(self) -> None:
        self._lines: dict[str, deque[Job]] = {}  # none is empty
        self._served: dict[str, int] = {}
        """When accounts were last served, as numbers."""
        self._turns = count(1)
        self._woken = False
        self._condition = threading.Condition()

    def put(self, job: Job) -> None:
        with self._condition:
            self._lines.setdefault(job.account, deque()).append(job)
            self._condition.notify()

    def wake(self) -> None:
        """End the waiting `next`, or the next one that would wait. Several calls in between end only one."""
        with self._condition:
            self._woken = True
            self._condition.notify()

    def next(self, seconds: float) -> Job | None:
        """Return the next job; None if there is none within `seconds`, or after `wake`."""
        with self._condition:
            self._condition.wait_for(lambda: self._lines or self._woken, seconds)
            if not self._lines:
                self._woken = False
                return None
            account = min(self._lines, key=lambda each: self._served.get(each, 0))
            self._served[account] = next(self._turns)
            job = self._lines[account].popleft()
            if not self._lines[account]:
                del self._lines[account]
            if len(self._served) > _MOST_REMEMBERED:
                self._served.clear()
            return job

    def waiting(self) -> bool:
        """Return whether `next` would return a job at once."""
        return bool(self._lines)

    def refuse(self, refusal: Callable[[], Refusal]) -> None:
        """Answer all waiting jobs with this refusal."""
        with self._condition:
            waiting = [job for line in self._lines.values() for job in line]
            self._lines.clear()
        for job in waiting:
            job.result.set_exception(refusal())


TRY_SECONDS: Final = 8.0
_TURN_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 0.005
_DOUBT_SECONDS: Final = 20.0
NOT_LEADING: Final = "Cannot complete request because this worker does not lead (any more). Send the request again"
_IN_DOUBT: Final = (
    "Request timed out. The config topic was being written when this worker lost it ({error}). Whether the request was "
    "carried out is unknown: check before you send it again."
)


def carry_out_all(first: Job, jobs: Jobs, term: Term, announce: Callable[[ClusterState, ClusterState], None]) -> None:
    """Carry out this job, and for a moment those that wait behind it: a pass of the loop may take seconds.

    Then leave the interpreter to the threads that answer their senders, for some milliseconds at most: beside a pass of
    the loop, which follows, an answer takes three times as long.
    """
    until = time.monotonic() + _TURN_SECONDS
    job: Job | None = first
    answers: list[threading.Event] = []
    while job is not None:
        carry_out(job, term, announce)
        answers += [job.answered] if job.answered is not None else []
        job = jobs.next(0) if time.monotonic() < until else None
    deadline = Deadline.after(_ANSWER_SECONDS)
    for answered in answers:
        answered.wait(deadline.remaining)


def carry_out(job: Job, term: Term, announce: Callable[[ClusterState, ClusterState], None]) -> None:
    """Write the records of the job's plan, and answer the job. Raises errors that end or delay the term."""
    before, began = term.state, time.perf_counter()
    # An attempt must not take long: a group that rebalances waits for this member, and the write for the group.
    limit, doubt = (Deadline.after(job.deadline.slice(seconds)) for seconds in (TRY_SECONDS, _DOUBT_SECONDS))
    try:
        with (
            request_context.working_for(job.request),
            telemetry.span_of(job.request, "leader write"),
            stages.collect() as parts,
        ):
            state, offset = term.write(job.due, limit, doubt)
    except NotLeader as error:
        answer = Refusal(409, f"{NOT_LEADING} ({error})", passing=True)
        job.result.set_exception(Refusal(500, _IN_DOUBT.format(error=error)) if term.in_doubt else answer)
        raise
    except Refusal as refusal:
        job.result.set_exception(refusal)
        return
    except FencingError as error:
        late = "Request timed out: nothing was changed. " if isinstance(error, Retriable) else ""
        message = f"{late}The config topic could not be read or written: {error}"
        job.result.set_exception(Refusal(500, _IN_DOUBT.format(error=error) if term.in_doubt else message))
        raise
    if offset >= 0:
        announce(before, state)
    stages_of_write = {**parts, "transaction": (time.perf_counter() - began) * 1000 - sum(parts.values())}
    job.result.set_result(WriteResult(state, offset, {"leader-busy": (began - job.put_at) * 1000, **stages_of_write}))


_PATIENCE_SECONDS = 20.0
_AWAY_SECONDS = _PATIENCE_SECONDS + 15.0
"""The time that it waits, and the time to become a member again."""
_POLL_SECONDS = 0.05

_ALONE = "There is no other live worker that could lead: start one, then hand over"
_NOBODY = "No other worker took the leadership within {seconds:g} s: this one leads again. Look at the others' logs"
_LATE = "Request timed out while the leadership was handed over: check which worker leads before you send it once more"


class Resignation:
    """One thread, of a command, requests the resignation; the leader's thread carries it out."""

    def __init__(self, worker: WorkerRecord, reporter: Reporter, statuses: Callable[[], StatusState]) -> None:
        self._worker = worker
        self._reporter = reporter
        self._statuses = statuses
        self._lock = threading.Lock()
        self._request: Future[WorkerId] | None = None

    def ask(self, members: list[LiveWorker], limit: Deadline) -> WorkerId:
        """Resign, and return the next leader. Raises `Refusal`, also if no other worker can lead."""
        if all(member.incarnation == self._worker.incarnation for member in members):
            raise Refusal(409, _ALONE)
        with self._lock:
            self._request = future = self._request or Future()
        try:
            return future.result(limit.remaining)
        except FutureTimeout:
            raise Refusal(500, _LATE) from None

    def due(self) -> bool:
        """Return whether to leave the group now. If so, the status record already says that the worker will be back."""
        if self._request is None:
            return False
        until = self._reporter.now_ms() + int(_AWAY_SECONDS * 1000)
        self._reporter.status(replace(self._worker, away_until_ms=until))
        self._reporter.flush(5)
        return True

    def await_successor(self, poll: Callable[[], None], stop: threading.Event) -> None:
        """After leaving the group, follow the status topic (`poll`) until another worker reports that it leads."""
        with self._lock:
            future = self._request
        if future is None:
            return
        before = self._statuses().leader
        patience = Deadline.after(_PATIENCE_SECONDS)
        try:
            while not patience.expired and not stop.is_set():
                poll()
                if (successor := self._successor(before)) is not None:
                    future.set_result(successor)
                    return
                time.sleep(_POLL_SECONDS)
            future.set_exception(Refusal(500, _NOBODY.format(seconds=_PATIENCE_SECONDS)))
        finally:
            with self._lock:
                self._request = None

    def _successor(self, before: LeaderRecord | None) -> WorkerId | None:
        leader = self._statuses().leader
        if leader is None or leader == before or leader.incarnation == self._worker.incarnation:
            return None
        return leader.worker


log = logging.getLogger(__name__)

_TICK_SECONDS = 0.05
_AGAIN_SECONDS = 5.0
_RELOAD_SECONDS = 60.0
_CLAIM_SECONDS = 10.0
_TURNING_SECONDS = 30.0
_KEY_SECONDS = 20.0
_RELOADED = "A file that its configuration refers to was changed (config.action.reload)"


class Leader:
    """A candidate for the leadership, for the worker's lifetime. `run` is its thread; any thread may call the rest."""

    def __init__(
        self,
        config: WorkerConfig,
        worker: WorkerRecord,
        plugins: PluginHost,
        reporter: Reporter,
        config_topic: ConfigTopic,
        view: OffsetsView | None = None,
        ids: TopicIds | None = None,
    ) -> None:
        """config_topic: followed on another thread. ids: of the cluster's topics, which the leader stores in them."""
        self.config_topic = config_topic
        self.worker_config = config
        self._ids = ids
        self._worker = worker
        self._reporter = reporter
        self._connection = config.connection(f"ringfence-{worker.worker}-leader")
        self._jobs = Jobs()
        self._reconfigure: queue.SimpleQueue[ConnectorName] = queue.SimpleQueue()
        self._reloads = ConfigReloads(config.settings)
        self._status = StatusLog(
            config.connection(f"ringfence-{worker.worker}-status"),
            config.status_topic,
            self.wake,
            self._trace_start if telemetry.is_on() else None,
        )
        self.offsets = ConnectorOffsets(config, f"ringfence-{worker.worker}-offsets", view, config_topic.read)
        self.instances = LeaderInstances(plugins, self.offsets, self.wake, self._tell_upgrade)
        graceful = config.number("task.shutdown.graceful.timeout.ms") / 1000
        self.rounds = RoundRunner(
            self._accesses, self._topics, graceful, self.wake, OffsetMigration(self.offsets), self._status.wait_until
        )
        self._writes = threading.Condition()
        self._abandoned_transactions = AbandonedTransactions(config.group_id, self._ways_now, self.wake)
        self._hanging = HangingWatch(config, partial(report_found, reporter))
        self._metadata: GroupMetadata | None = None
        self._term: Term | None = None
        self._reconciler: Reconciler | None = None
        self.members: list[LiveWorker] = []
        """The live workers when the leader last checked, without suspected ones."""
        self.places: Sequence[Place] = ()
        """Where the live workers are, suspected ones too."""
        self._member_watch = MemberWatch(partial(find_members, self._connection, config.group_id))
        self._membership: GroupMembership | None = None
        self.hand_over = Resignation(worker, reporter, self.statuses)
        self.ready = threading.Event()
        """Set while this worker leads and takes commands."""
        self.failure: str | None = None
        self._load = PlaceCounts()
        self._foreign = ForeignRecords(config.config_topic, config_topic.foreign, reporter)
        self._turned_at = 0.0
        self._woken = False

    def leads_now(self) -> bool:
        """Return whether it leads and its loop makes progress."""
        return self.ready.is_set() and time.monotonic() - self._turned_at < _TURNING_SECONDS

    def wake(self) -> None:
        """Start the next pass at once, because something has finished."""
        self._woken = True
        self._jobs.wake()

    def state(self) -> ClusterState:
        """Return the state of the config topic in this term. Raises `Refusal` if this worker does not lead."""
        state = self.term_state()
        if state is None:
            raise Refusal(409, NOT_LEADING, passing=True)
        return state

    def term_state(self) -> ClusterState | None:
        """Return the state of the config topic in this term, None if this worker does not lead."""
        term = self._term
        return None if term is None or not self.ready.is_set() else term.state

    def _trace_start(self, status: TaskStatus) -> None:
        """Trace the way of an attempt from its placement to its plugin's start, while this worker leads."""
        term = self._term
        if term is None or not self.ready.is_set():
            return
        connector = term.state.connector(status.task.connector)
        placement = connector.placements.get(status.task.task)
        if placement is None or (placement.generation, placement.attempt) != (status.generation, status.attempt):
            return
        attributes: telemetry.Attributes = {
            "ringfence.connector": status.task.connector,
            "ringfence.task": status.task.task,
            "ringfence.generation": status.generation,
            "ringfence.attempt": status.attempt,
            "ringfence.worker": status.worker,
            "ringfence.transactional_id": task_transactional_id(self.worker_config.group_id, status.task),
        }
        if placement.placed_ms and connector.request.id:
            telemetry.tell("task start", connector.request, placement.placed_ms, status.since_ms, attributes)

    def await_state(self, done: Callable[[ClusterState], bool], seconds: float) -> bool:
        """Wait until the state is as `done` says, which is called after each write. Return whether it is in time.

        Raises `Refusal` if this worker does not lead.
        """
        with self._writes:
            return self._writes.wait_for(lambda: done(self.state()), seconds)

    def _note_write(self) -> None:
        with self._writes:
            self._writes.notify_all()

    def _accesses(self, due: Round) -> list[AdminAccess]:
        """Return the connections for a round, those with the old generation's admin credentials first."""
        term = self._term
        config = term.state.connector(due.connector).config if term else None
        return list_admin_access(due.target, config, self._connection, self.worker_config.settings)

    def _topics(self, due: Round) -> set[str]:
        """Return the topics that the old generation's tasks wrote to, as far as is known, with the offsets topics."""
        return topics_of(self._status.state.topics.get(due.connector, ()), due.target or {}, self.worker_config)

    def _ways_now(self, name: ConnectorName) -> list[AdminAccess]:
        """Return the connections to the cluster that the connector's tasks write to now."""
        term = self._term
        if term is None:
            raise NotLeader("This worker no longer leads: the next leader does it")
        return admin_access_of(term.state.connector(name), self.worker_config)

    def statuses(self) -> StatusState:
        """Return the state of the status topic."""
        return self._status.state

    def wait_for_status(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait until `done` returns true, which is called after each change of the statuses. Return whether it did."""
        return self._status.wait_until(done, seconds)

    def mark_restarting(self, name: ConnectorName, tasks: list[int]) -> None:
        """Note that the next attempts of these tasks are a restart that a user requested."""
        if self._reconciler is not None:
            self._reconciler.statuses.restarting.update(TaskId(name, task) for task in tasks)

    def reconfigure(self, name: str) -> None:
        """Handle a connector instance's request for new task configurations."""
        self._reconfigure.put(ConnectorName(name))
        self.wake()

    def note_error(self, name: str, trace: str) -> None:
        """Note that a connector instance raised an error, or could not be started again."""
        self.instances.note_error(ConnectorName(name), trace)
        self.wake()

    def submit(
        self, plan: Plan, deadline: Deadline, account: str = "", answered: threading.Event | None = None
    ) -> "Future[WriteResult]":
        """Have the plan's records written, for this account. The deadline is checked right before the write.

        answered: see `Job`.
        """
        job = Job(plan, deadline, account, answered=answered)
        self._jobs.put(job)
        return job.result

    def run(self, stop: threading.Event) -> None:
        """Run until `stop`. Then leave the group, so that the next leader need not wait for the session to expire."""
        following = threading.Thread(target=self._status.run, args=(stop,), name="statuses", daemon=True)
        following.start()
        try:
            while not stop.is_set():
                try:
                    self._run_membership(stop)
                    self.hand_over.await_successor(self._status.check, stop)
                except Exception as error:
                    # The root of the thread. Another worker may be able to read or write what this one cannot: it
                    # leaves the group (KIP-618, "Leader access to config topic"), and joins again after a pause.
                    log.exception("This worker cannot lead; it has left the group for %g s", _AGAIN_SECONDS)
                    self.failure = str(error)
                    self._reporter.event("leader", worker=self._worker.worker, stage="failed", message=self.failure)
                    stop.wait(_AGAIN_SECONDS)
        finally:
            self.instances.close()
            self.rounds.close()
            self._abandoned_transactions.close()
            self._hanging.close()
            following.join(_AGAIN_SECONDS)
            self._status.close()
            self._member_watch.close()

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
            self._metadata = None
            self._stand_down("it leaves the group")
            self._membership.close()

    def _gain(self, metadata: GroupMetadata) -> None:
        self._metadata = metadata

    def _lose(self) -> None:
        self._metadata = None
        self._stand_down("the partition moved to another worker")

    def _turn(self) -> None:
        assert self._membership is not None
        self._turned_at = time.monotonic()
        try:
            self._membership.poll(0)
            self._status.check()
            if self._metadata is not None:
                self._foreign.report()
            self._lead()
            self._work()
        except NotLeader as error:
            self._stand_down(str(error))
        except Retriable as error:
            log.warning("The leader waits: %s", error)

    def _lead(self) -> None:
        """If the group gave this worker the partition, begin a term, or continue it with a new group generation."""
        metadata = self._metadata
        if metadata is None:
            return
        if self._term is not None:
            if self._term.generation != metadata.generation:
                self._term.recapture(metadata)
            return
        membership = self._membership
        assert membership is not None
        writer = f"{self._worker.worker}/{self._worker.incarnation}/{metadata.generation}"
        term = Term(
            self._connection, self.worker_config.group_id, self.worker_config.config_topic, metadata,
            lambda: membership.owns, stamper=Stamper(KeyringSigner(), writer), vault=self.worker_config.vault,
            on_write=self._note_write, publisher=self.config_topic.publisher,
        )  # fmt: skip
        try:
            term.claim(Deadline.after(_CLAIM_SECONDS))
            refuse_to_lead(term.state)
            self._status.refresh(Deadline.after(20))
            if self._ids is not None:
                remember_topics(self._ids, self.worker_config, term, self._status.state, self._reporter)
        except FencingError:
            term.close()
            raise
        self._term = term
        self._member_watch.begin()
        self._reconciler = Reconciler(
            term, self.worker_config.group_id, self._worker.worker, self._reporter, self.rounds,
            self._abandoned_transactions, self.instances, self.statuses, self.worker_config.settings,
        )  # fmt: skip
        me, now, tracking = self._worker, self._reporter.now_ms(), self.worker_config.flag("topic.tracking.enable")
        self._reporter.status(LeaderRecord(me.worker, me.incarnation, metadata.generation, now, tracking))
        self._reporter.event("leader", worker=self._worker.worker, stage="elected", message="")
        log.info("Worker %s leads, group generation %d", self._worker.worker, metadata.generation)
        self.failure = None
        self.ready.set()

    def _stand_down(self, reason: str) -> None:
        self.ready.clear()
        self.places = ()
        term, self._term, self._reconciler = self._term, None, None
        if term is not None:
            log.info("Worker %s leads no more: %s", self._worker.worker, reason)
            self._reporter.event("leader", worker=self._worker.worker, stage="stood down", message=reason)
            term.close()
        self._jobs.refuse(lambda: Refusal(409, NOT_LEADING, passing=True))

    def _work(self) -> None:
        """Wait a tick for commands, carry them out, and reconcile."""
        job = self._jobs.next(_TICK_SECONDS)
        if self._term is None or self._reconciler is None:
            if job is not None:
                job.result.set_exception(Refusal(409, NOT_LEADING, passing=True))
            return
        if job is not None:
            carry_out_all(job, self._jobs, self._term, self._reconciler.statuses.announce)
        while not self._reconfigure.empty():
            self._reconciler.reconfigure(self._reconfigure.get_nowait())
        members = self._member_watch.find(self._status.state)
        if members is None:
            return
        self.places = [(member.worker, member.incarnation) for member in members]
        self.members = take_out(admit(self._term, members), self._status.state.suspicions, self._term.state, self._load)
        self._rotate_key(self._term)
        woken, self._woken = self._woken, False
        if woken or self._reconciler.is_due(self.members):
            self._reconciler.step(self.members, self._jobs.waiting)
        self._hanging.step(self._term.state, self._status.state.topics)
        self.instances.look_for_upgrades(time.monotonic())
        for name in self._reloads.due(self._term.state, time.monotonic()):
            self._reload(name, self._reconciler)

    def _rotate_key(self, term: Term) -> None:
        """Write a new session key if the newest has expired (KIP-507)."""
        keys, now_ms = self.worker_config.session_keys, self._reporter.now_ms()
        if keys.due(term.state.session_key, now_ms):
            key = keys.make_key(now_ms)
            limit = Deadline.after(_KEY_SECONDS)
            term.write(lambda state: [key] if keys.due(state.session_key, now_ms) else [], limit)

    def _tell_upgrade(self, name: ConnectorName, text: str) -> None:
        self._reporter.event("command", name, kind="start", outcome="done", user="", offset=-1, message=text)

    def _reload(self, name: ConnectorName, reconciler: Reconciler) -> None:
        """Restart connector and tasks, because values of a config provider have changed."""
        log.info("Connector %s restarts: a file that its configuration refers to was changed", name)
        self._reporter.event("command", name, kind="restart", outcome="done", user="", offset=-1, message=_RELOADED)
        reconciler.statuses.restarting.update(TaskId(name, task) for task in self.state().connector(name).placements)
        self.instances.restart(name)
        self.submit(plan_restart(name, True, False, self.statuses()), Deadline.after(_RELOAD_SECONDS))
