"""One attempt of one source task, from its assignment to its end (KIP-618, "Source task startup").

The steps of the start, which the code refers to by number:

1. Wait until the newest placement is this attempt.
2. Wait for the count record of this generation: all older tasks are fenced. In the meantime, connect and read the
   source offsets that are there. For that, the older tasks go on for a moment (`config_view.may_hand_over`).
3. Create a producer and call its `init`: an earlier attempt that is still alive is fenced. During the next
   steps, hanging transactions of the id's older epochs are ended (invariant 13), before anything is written there.
4. Read the config topic to its end: a newer generation or placement ends this attempt normally.
5. Create the connector's own offsets topic if it is missing.
6. Read the source offsets to their end.
7. Start the plugin from them.
8. Poll (`fencing.task.poll_loop`).

After any abort that the plugin did not request, steps 2 to 8 are repeated with a new plugin instance, because a plugin
cannot be rewound (invariant 12). `StartRetries` says when, and when the attempt fails instead.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from ringfence.fencing.backoff import Backoff
from ringfence.fencing.clock import SYSTEM_CLOCK, Clock
from ringfence.fencing.errors import Abortable, Fatal, Fenced, FencingError, Retriable
from ringfence.fencing.leader.next_placement import why_of
from ringfence.fencing.modes import Mode
from ringfence.fencing.records.dead_letter import find_failed_record
from ringfence.fencing.task import start_progress
from ringfence.fencing.task.admission import TRANSACTION_TIMED_OUT
from ringfence.fencing.task.at_least_once_run import AtLeastOnceRun
from ringfence.fencing.task.attempt_report import Counters, TaskReport
from ringfence.fencing.task.clients import transactional_producer
from ringfence.fencing.task.config_view import DesiredState, TaskView
from ringfence.fencing.task.joint_reads import JointReads
from ringfence.fencing.task.runtime import Superseded, TaskRuntime
from ringfence.fencing.task.start_progress import StartWatch, holding_up
from ringfence.fencing.task.task_spec import Outcome, Plugin, TaskSpec, readable
from ringfence.fencing.task.traced_transactions import TracedTransactions
from ringfence.fencing.task.transactional_run import NewProducer, TransactionalRun
from ringfence.fencing.topics.connector_logs import ConnectorLevelRecord
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import State
from ringfence.fencing.transactions.error_codes import ErrorCode

log = logging.getLogger(__name__)

_SUPERSEDED: Final = Outcome("superseded")
_MOST_HOPELESS: Final = 5
_BACKOFF: Final = Backoff(0.05, 10)
_NEVER_BETTER: Final = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name, TRANSACTION_TIMED_OUT}


class SourceTaskRun:
    """Runs one attempt to its end. `run` reports and returns its outcome; it never raises."""

    def __init__(
        self,
        spec: TaskSpec,
        plugin: Plugin,
        reporter: Reporter,
        *,
        clock: Clock = SYSTEM_CLOCK,
        new_producer: NewProducer | None = None,
        on_level: Callable[[ConnectorLevelRecord | None], None] = lambda _level: None,
        joint: JointReads | None = None,
    ) -> None:
        """on_level: called with the log level that a user sets for the connector. joint: of the process, if it runs
        several attempts.
        """
        self._spec = spec
        self._plugin = plugin
        self._counters = Counters(traced=TracedTransactions(clock, spec.request.trace) if spec.traced else None)
        self._report = TaskReport(spec, reporter, self._counters, clock, plugin.version, plugin.redact)
        self._view = TaskView(spec, self._report.tick, on_level, None if joint is None else joint.follower)
        self._runtime = TaskRuntime(spec, plugin, self._view, self._report, self._counters, clock, joint)
        self._lives = TransactionalRun(self._runtime, new_producer or transactional_producer)
        self._watch = StartWatch(
            lambda: self._report.start_stage,
            lambda stage: self._lives.leftovers.trouble or holding_up(stage, spec, self._lives.offsets_topic, clock),
            self._report.waiting,
        )
        self._report.on_stage = self._watch.wake

    def end(self) -> None:
        """Commit what is open, and end soon. Safe to call in a signal handler."""
        self._view.end()

    def run(self) -> Outcome:
        """Run from step 1 to the end of the attempt."""
        try:
            self._report.stage(start_progress.READING_CONFIG)
            self._watch.start()
            self._view.open(self._runtime.deadline())
            outcome = self._run_lives()
        except Exception as error:  # noqa: BLE001 - the root of the attempt, where it is recorded
            outcome = self._fail(error)
        self._watch.close()
        self._lives.share.close()
        if outcome.trace is None:
            self._report.report_ended(outcome.reason)
        else:
            self._report.report_failed(
                outcome.trace, outcome.reason, left_open=outcome.left_open, failure=outcome.failure
            )
        self._lives.close()
        self._view.close()
        self._report.flush()
        return outcome

    def _fail(self, error: Exception) -> Outcome:
        """Return the outcome of an error. A superseded attempt ends normally, whatever the error: a zombie may fail
        before it learns that it is one.
        """
        with suppress(FencingError):
            self._view.refresh(self._runtime.deadline(30))
        if self._runtime.is_superseded():
            log.info("Task %s is superseded; it met: %s", self._spec.task, self._plugin.redact(str(error)))
            return _SUPERSEDED
        failure = find_failed_record(error, self._spec.connector_config, self._plugin.redact)
        trace = self._plugin.redact(readable(error))
        log.error("Task %s failed: %s", self._spec.task, trace)
        self._counters.measures.count_failure(error, self._runtime.clock)
        return Outcome(why_of(error), trace, self._lives.left_open, failure)

    def _run_lives(self) -> Outcome:
        run = self._lives.run if self._spec.mode is Mode.ENABLED else AtLeastOnceRun(self._runtime).run
        retries = StartRetries()
        while True:
            if self._await_start() is DesiredState.END:
                return _SUPERSEDED
            last_commit = self._counters.last_commit
            try:
                if run():
                    return _SUPERSEDED
                continue
            except Superseded:
                return _SUPERSEDED
            except Fenced as error:
                # Whether the attempt is superseded is for the config topic to say (invariant 5).
                if self._runtime.refresh():
                    return _SUPERSEDED
                trouble: FencingError = error
            except (Abortable, Retriable) as error:
                trouble = error
            pause = retries.pause_after(trouble, progress=self._counters.last_commit > last_commit)
            log.warning("Task %s starts again from its committed offsets: %s", self._spec.task, trouble)
            self._report.stage("starting again", str(trouble))
            self._view.wait_while(frozenset({DesiredState.RUN}), pause)

    def _await_start(self) -> DesiredState:
        """Do steps 1 and 2, and wait if the task is paused."""
        while True:
            verdict = self._view.verdict
            if verdict is DesiredState.WAIT:
                self._report.stage(str(verdict))
                if self._spec.mode is Mode.ENABLED:
                    self._lives.prepare()
            elif verdict is DesiredState.PAUSE:
                self._report.running(State.PAUSED)
            else:
                return verdict
            self._view.wait_while(frozenset({verdict}), 60)


class StartRetries:
    """Counts the starts in a row that committed nothing."""

    def __init__(self) -> None:
        self._without_progress = self._hopeless = 0

    def pause_after(self, error: FencingError, *, progress: bool) -> float:
        """Return the seconds to wait before the next start.

        progress: something was committed since the last start. Raises Fatal where the next start would fail for the
        same reason as all those before.
        """
        self._without_progress = 0 if progress else self._without_progress + 1
        self._hopeless = self._hopeless + 1 if self._without_progress and error.code in _NEVER_BETTER else 0
        if self._hopeless >= _MOST_HOPELESS:
            raise Fatal(
                f"{error}. Nothing of it is visible to a read_committed reader, and the source offsets are "
                f"unchanged. It happened {self._hopeless} times in a row: fix the cause, then restart the task",
                error.code,
            )
        return _BACKOFF.pause(self._without_progress + 1)
