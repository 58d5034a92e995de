"""One attempt of one source task, from placement to end (KIP-618, "Source task startup"; design of the whole: docs).

The start, step by step; the numbers stand in the code:

1. the newest placement is this attempt;
2. the count record of this generation is there: all older tasks are fenced;
3. a new producer, `init_transactions`: the attempt before, if it still lives, is fenced; beside the next steps, what
   hangs of the id's older epochs is ended (invariant 13), before anything is written where it hangs;
4. the config topic to the end: a newer generation or placement ends this attempt, quietly;
5. an offsets topic of the connector's own is created where it is missing;
6. the source offsets, to the end;
7. the plugin starts from them;
8. poll (`fencing.task.poll_loop`).

After any abort that the plugin did not ask for, steps 2 to 8 are done again with a new plugin instance: a plugin cannot
be rewound (invariant 12).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from ringfence.connectors.api import SourceTask
from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import SYSTEM_CLOCK, Clock, Deadline
from ringfence.fencing.errors import Abortable, Fatal, Fenced, FencingError, Retriable
from ringfence.fencing.kafka.client_settings import transaction_timeout_ms
from ringfence.fencing.kafka.hanging import GROUP_OFFSETS
from ringfence.fencing.kafka.protocols import TransactionalClient
from ringfence.fencing.leader.restarts import why_of
from ringfence.fencing.modes import Mode
from ringfence.fencing.offsets.source_offsets import SourceOffsets
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.share.source import ShareSource
from ringfence.fencing.task import start_watch
from ringfence.fencing.task.at_least_once.run import AtLeastOnceRun
from ringfence.fencing.task.boundaries import Boundaries, Boundary
from ringfence.fencing.task.clients import group_source, transactional_producer
from ringfence.fencing.task.context import TaskContext
from ringfence.fencing.task.group_source import GroupSource
from ringfence.fencing.task.offsets import TaskOffsets
from ringfence.fencing.task.older_epochs import TaskLeftovers
from ringfence.fencing.task.plugin import Outcome, Plugin, overrides, readable
from ringfence.fencing.task.poll_loop import PollLoop, due_in
from ringfence.fencing.task.positions import Positions
from ringfence.fencing.task.record_path_factory import record_path
from ringfence.fencing.task.report import TaskReport
from ringfence.fencing.task.share_groups import ShareGroups
from ringfence.fencing.task.snapshot_transaction import SnapshotEndings
from ringfence.fencing.task.spec import TaskSpec
from ringfence.fencing.task.start_watch import StartWatch, holding_up
from ringfence.fencing.task.timeouts import TRANSACTION_TIMED_OUT, timeouts_explained
from ringfence.fencing.task.transaction_context import RequestedEndings
from ringfence.fencing.task.transactions import Counters, Transactions
from ringfence.fencing.task.view import DesiredState, TaskView
from ringfence.fencing.topics import record_failures
from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import State

log = logging.getLogger(__name__)

_ATTEMPTS_WITHOUT_PROGRESS = 5
_BACKOFF = Backoff(0.05, 10)
_NEVER_BETTER = {"MSG_SIZE_TOO_LARGE", "INVALID_RECORD", "INVALID_MSG", "UNKNOWN_TOPIC_OR_PART", "TOPIC_EXCEPTION"}
_NEVER_BETTER |= {"_FATAL", TRANSACTION_TIMED_OUT}


First = Mapping[tuple[str, int], int] | None


class _Ended(Exception):
    """The verdict says END: unwind without fuss."""


class SourceTaskRun:
    """Runs one attempt to its end. `run` returns its outcome and reports it; it never raises."""

    def __init__(
        self,
        spec: TaskSpec,
        plugin: Plugin,
        reporter: Reporter,
        *,
        clock: Clock = SYSTEM_CLOCK,
        new_producer: Callable[[TaskSpec, int], TransactionalClient] | None = None,
        on_level: Callable[[ConnectorLevelRecord | None], None] = lambda _level: None,
    ) -> None:
        """`on_level` is called with the log level that somebody sets for the connector."""
        self._spec = spec
        self._plugin = plugin
        self._clock = clock
        self._new_producer = new_producer or transactional_producer
        self._counters = Counters()
        self._report = TaskReport(spec, reporter, self._counters, clock, plugin.version, plugin.redact)
        self._view = TaskView(spec, self._report.tick, on_level)
        self._watch = StartWatch(
            lambda: self._report.start_stage,
            lambda stage: self._leftovers.trouble or holding_up(stage, spec, self._offsets_topic, clock),
            self._report.waiting,
        )
        self._offsets_topic = spec.topics.offsets
        self._leftovers = TaskLeftovers(spec, clock, self._report.hanging_ended, self._stop_if_ended)
        worker = spec.worker_settings
        self._boundaries = Boundaries.of(spec.connector_config, int(worker.get("offset.flush.interval.ms", "60000")))
        self._left_open = False
        self._share = ShareGroups(spec, self._boundaries, clock, lambda: self._view.tasks, self._ends)
        self._timeout_ms = self._boundaries.transaction_timeout_ms(
            transaction_timeout_ms(worker, spec.connector_config)
        )

    def end(self) -> None:
        """Commit what is open and end, soon. Safe to call in a signal handler."""
        self._view.end()

    def run(self) -> Outcome:
        """From step 1 to the end of the attempt."""
        try:
            self._report.stage(start_watch.READING_CONFIG)
            self._watch.start()
            self._view.open(Deadline.after(60, self._clock))
            outcome = self._lives()
        except Exception as error:  # noqa: BLE001 - the root of the attempt, where it is recorded
            outcome = self._fail(error)
        self._watch.close()
        self._share.close()
        if outcome.trace is None:
            self._report.report_ended(outcome.reason)
        else:
            self._report.report_failed(
                outcome.trace, outcome.reason, left_open=outcome.left_open, failure=outcome.failure
            )
        self._leftovers.close()
        self._view.close()
        self._report.flush()
        return outcome

    def _fail(self, error: Exception) -> Outcome:
        """Whatever a superseded attempt met, it is a normal end: a zombie may fail before it learns what it is."""
        with suppress(FencingError):
            self._view.refresh(Deadline.after(30, self._clock))
        if self._view.verdict is DesiredState.END:
            log.info("Task %s is superseded; it met: %s", self._spec.task, self._plugin.redact(str(error)))
            return Outcome("superseded")
        trace = self._plugin.redact(readable(error))
        log.error("Task %s failed: %s", self._spec.task, trace)
        self._counters.measures.count_failure(error, self._clock)
        return Outcome(why_of(error), trace, self._left_open, record_failures.of(error))

    def _lives(self) -> Outcome:
        without_progress = 0
        while True:
            if self._await_start() is DesiredState.END:
                return Outcome("superseded")
            committed = self._counters.last_commit
            try:
                if self._life():
                    return Outcome("superseded")
                continue
            except _Ended:
                return Outcome("superseded")
            except Fenced as error:
                # A question, not an answer (invariant 5): the config topic knows.
                if self._view.refresh(Deadline.after(60, self._clock)) is DesiredState.END:
                    return Outcome("superseded")
                trouble: FencingError = error
            except (Abortable, Retriable) as error:
                trouble = error
            without_progress = 0 if self._counters.last_commit > committed else without_progress + 1
            if trouble.code in _NEVER_BETTER and without_progress >= _ATTEMPTS_WITHOUT_PROGRESS:
                raise Fatal(
                    f"{trouble}. Nothing of it is visible to a read_committed reader, and the source offsets stand "
                    f"where they were. It happened {without_progress} times in a row: mend the cause, then restart "
                    "the task",
                    trouble.code,
                )
            log.warning("Task %s starts again from its committed offsets: %s", self._spec.task, trouble)
            self._report.stage("starting again", str(trouble))
            self._view.wait_while(frozenset({DesiredState.RUN}), _BACKOFF.pause(without_progress + 1))

    def _await_start(self) -> DesiredState:
        """Steps 1 and 2, and a pause before the start."""
        while True:
            verdict = self._view.verdict
            if verdict is DesiredState.WAIT:
                self._report.stage(str(verdict))
            elif verdict is DesiredState.PAUSE:
                self._report.running(State.PAUSED)
            else:
                return verdict
            self._view.wait_while(frozenset({verdict}), 60)

    def _life(self) -> bool:
        """Steps 3 to 8. False where the next life follows at once (`PollLoop.run`)."""
        if self._spec.mode is not Mode.ENABLED:
            AtLeastOnceRun(self._spec, self._plugin, self._view, self._report, self._counters, self._clock).run()
            return True
        self._report.stage(start_watch.INITIALISING)
        producer = self._take_id()  # 3, 4
        transactions: Transactions | None = None
        plugin: SourceTask | None = None
        own = RequestedEndings() if self._boundaries.kind is Boundary.CONNECTOR else None
        requests = self._snapshot_endings() or own

        def join(group: str, topics: Sequence[str], *, session_timeout_ms: int, first: First = None) -> GroupSource:
            assert transactions is not None
            transactions.group = group_source(self._spec, group, topics, session_timeout_ms, first or {})
            return transactions.group

        def join_share(
            group: str | None,
            topics: Sequence[str],
            settings: Mapping[str, str],
            *,
            cluster: Mapping[str, str] | None = None,
        ) -> ShareSource:
            assert transactions is not None
            transactions.share = self._share.join(kept, offsets, group, topics, settings, cluster)
            transactions.share.dead_letter = path.dead_letter
            return transactions.share

        try:
            self._report.stage(start_watch.READING_OFFSETS)
            kept = TaskOffsets(self._spec, self._clock)
            self._offsets_topic = kept.topic
            self._leftovers.begin(producer, kept.topic)
            kept.prepare()  # 5
            offsets = kept.read(self._ends, self._reading)  # 6
            self._view.check_topics(Deadline.after(60, self._clock))
            if self._ends():
                raise _Ended
            self._report.gauges.clear()
            plugin = self._plugin.make()
            path = self._path(kept.topic)
            transactions = self._transactions(producer, kept, offsets, plugin, path)
            plugin.context = TaskContext(
                self._plugin.config,
                offsets,
                self._plugin.convert.raw,
                own,
                self._view,
                lambda: due_in(transactions, self._boundaries, self._clock),
                self._clock,
                self._report.gauges,
                join,
                join_share,
                read_offsets=lambda: kept.read(self._ends),
            )
            self._report.stage("starting the plugin")
            plugin.start(self._plugin.config)  # 7
            transactions.positions = Positions() if plugin.wants_positions else None
            self._report.stage("looking for hanging transactions")
            self._leftovers.clear({kept.topic} | ({GROUP_OFFSETS} if transactions.group is not None else set()))
            self._report.producer(producer)
            self._report.running(State.RUNNING)
            with timeouts_explained(self._open_s, self._timeout_ms):
                loop = self._loop(plugin, transactions, kept, requests)
                if transactions.group is not None:
                    transactions.group.finish = loop.commit_now
                return loop.run()  # 8
        finally:
            if transactions is not None:
                self._left_open = transactions.abandon(5.0)
            else:
                producer.close()
            if transactions is not None and transactions.group is not None:
                transactions.group.close()
            if plugin is not None:
                plugin.stop()

    def _loop(
        self, plugin: SourceTask, transactions: Transactions, kept: TaskOffsets, requests: RequestedEndings | None
    ) -> PollLoop:
        return PollLoop(
            plugin,
            transactions,
            self._boundaries,
            self._view,
            self._report,
            self._counters,
            self._clock,
            requests=requests,
            renew=lambda spent, why: self._renew(spent, kept, why),
        )

    def _snapshot_endings(self) -> RequestedEndings | None:
        """Of a connector whose snapshot is one transaction."""
        allowed = self._boundaries.snapshot_ms / 1000
        return SnapshotEndings(allowed, self._open_s) if allowed else None

    def _open_s(self) -> float:
        """The age of the open transaction."""
        since = self._counters.open_since
        return self._clock.wall() - since if since else 0.0

    def _take_id(self) -> TransactionalClient:
        producer = self._new_producer(self._spec, self._timeout_ms)
        try:
            producer.init(Deadline.after(60, self._clock))  # 3
            self._left_open = False
            if self._view.refresh(Deadline.after(60, self._clock)) is DesiredState.END:  # 4
                raise _Ended
        except BaseException:
            producer.close()
            raise
        return producer

    def _reading(self, far: str) -> None:
        self._report.starting(start_watch.READING_OFFSETS, far)

    def _ends(self) -> bool:
        return self._view.verdict is DesiredState.END

    def _transactions(
        self,
        producer: TransactionalClient,
        kept: TaskOffsets,
        offsets: SourceOffsets,
        plugin: SourceTask,
        path: RecordPath,
    ) -> Transactions:
        placement = self._spec.placement
        return Transactions(
            producer,
            kept.topic,
            offsets,
            path,
            self._counters,
            self._clock,
            commit_timeout_s=self._timeout_ms / 1000,
            keep_records=overrides(plugin, "commit_record"),
            stopping=self._stop_if_ended,
            attempt=(self._spec.task.task, placement.generation, placement.attempt),
            copy=kept.copy(offsets, lambda text: self._report.stage("copying offsets", text)),
            clear=self._leftovers.clear,
        )

    def _path(self, offsets_topic: str) -> RecordPath:
        return record_path(
            self._spec,
            self._plugin,
            offsets_topic,
            self._counters.measures,
            self._clock,
            self._view,
            self._report,
            self._stop_if_ended,
        )

    def _stop_if_ended(self) -> None:
        if self._view.verdict is DesiredState.END:
            raise _Ended

    def _renew(self, transactions: Transactions, kept: TaskOffsets, why: str) -> None:
        """A new epoch, which shuts out what the old producer may still send; and a look at what is really committed."""
        if transactions.share is not None:
            raise Abortable(f"{why}: the ledger tells where to go on")
        if transactions.group is not None:
            raise Abortable(f"{why}: the group's committed offsets tell where to go on")
        self._report.stage(start_watch.RENEWING, why)
        self._counters.measures.producers_renewed += 1
        transactions.retire()
        producer = self._take_id()
        transactions.take_over(producer)
        self._leftovers.begin(producer, kept.topic)
        found = kept.read(self._ends)
        self._view.check_topics(Deadline.after(60, self._clock))
        transactions.check(found)
        self._report.producer(producer)
        self._report.going_on()
