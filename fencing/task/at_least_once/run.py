"""One run of a source task without transactions: worker modes `disabled` and `preparing` (KIP-618).

At least once, as in Kafka Connect without KIP-618: records are produced as they come, and every
`offset.flush.interval.ms` the newest source offset up to which all records are acknowledged is written. After a crash,
what came after it is read again. Nothing is skipped: a record that cannot be delivered fails the task, and no offset
from it on is written.

Not guaranteed in these modes: an attempt that cannot reach the config topic cannot be fenced, because it has no
transactional id. It may keep producing beside its successor, and may overwrite newer source offsets with its own. An
attempt that learns that it is superseded sends nothing more, not even a batch that its plugin has just returned.
"""

import logging

from ringfence.connectors.api import SourceTask
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError
from ringfence.fencing.kafka.fencer import Fencer
from ringfence.fencing.kafka.idempotent_producer import IdempotentProducer
from ringfence.fencing.task.at_least_once.deliveries import Deliveries
from ringfence.fencing.task.at_least_once.offset_flush import OffsetFlush
from ringfence.fencing.task.clients import fencing_connection, idempotent_producer
from ringfence.fencing.task.config_view import DesiredState
from ringfence.fencing.task.context import TaskContext
from ringfence.fencing.task.plugin import overrides
from ringfence.fencing.task.poll_retries import Polling
from ringfence.fencing.task.runtime import Superseded, TaskRuntime
from ringfence.fencing.task.start_progress import READING_OFFSETS
from ringfence.fencing.task.task_offsets import TaskOffsets
from ringfence.fencing.topics.status import State

log = logging.getLogger(__name__)


class AtLeastOnceRun:
    """Runs from the source offsets to the end of the attempt, or until an error is raised.

    The errors are those of a run with transactions: `Fatal` fails the task; `Retriable` and `Fenced` (librdkafka gave
    up its producer) start it again from what is in Kafka.
    """

    def __init__(self, runtime: TaskRuntime) -> None:
        self._runtime = runtime
        self._spec = runtime.spec
        self._view = runtime.view
        self._report = runtime.report
        self._clock = runtime.clock
        settings = runtime.spec.worker_settings
        self._interval_s = int(settings.get("offset.flush.interval.ms", "60000")) / 1000
        self._timeout_s = int(settings.get("offset.flush.timeout.ms", "5000")) / 1000

    def run(self) -> bool:
        """Return True when the attempt must end."""
        runtime = self._runtime
        if runtime.refresh():
            return True
        self._fence_before()
        self._report.stage(READING_OFFSETS)
        task_offsets = TaskOffsets(self._spec, self._clock, transactional=False)
        task_offsets.prepare()
        offsets = task_offsets.read(runtime.is_superseded, runtime.report_reading)
        self._view.check_topics(runtime.deadline())
        plugin = runtime.plugin.make()
        copy = task_offsets.copy(offsets, lambda text: self._report.stage("copying offsets", text))
        path = runtime.record_path(task_offsets.topic)
        producer = idempotent_producer(self._spec)
        # The worker's topic with the worker's own rights, as in Kafka Connect: the connector's may not suffice.
        writer = IdempotentProducer(self._spec.connection) if copy is None else idempotent_producer(self._spec)
        flush = OffsetFlush(
            writer,
            task_offsets.topic,
            offsets,
            runtime.counters.measures,
            self._clock,
            timeout_s=self._timeout_s,
            copy=copy,
        )
        deliveries = Deliveries(
            producer,
            flush,
            path,
            runtime.counters,
            self._clock,
            keep_records=overrides(plugin, "commit_record"),
            stopping=runtime.require_current,
        )
        try:
            # There are no transactions to define.
            plugin.context = TaskContext(
                runtime,
                offsets,
                lambda: deliveries.due_in(self._interval_s),
                None,
                read_offsets=lambda: task_offsets.read(runtime.is_superseded),
            )
            self._report.stage("starting the plugin")
            plugin.start(runtime.plugin.config)
            self._report.running(State.RUNNING)
            self._work(plugin, deliveries)
            return True
        finally:
            producer.close()
            flush.close()
            runtime.counters.open_records = 0
            plugin.stop()

    def _fence_before(self) -> None:
        """Fence an earlier attempt that may have run on an `enabled` worker.

        If the principal may not fence, the task still runs: without transactional ids, it needs no such permission.
        """
        if self._spec.placement.attempt <= 1:
            return
        self._report.stage("fencing the attempt before")
        try:
            with Fencer(fencing_connection(self._spec)) as fencer:
                fencer.fence([self._spec.transactional_id], Deadline.after(30, self._clock))
        except Fatal as error:
            log.warning("An attempt of %s in a transaction could not be fenced: %s", self._spec.task, error)

    def _work(self, plugin: SourceTask, deliveries: Deliveries) -> None:
        try:
            self._poll_loop(plugin, deliveries)
        except Superseded:
            self._finish(plugin, deliveries)
        except Exception:
            # Acknowledged records need not be read again after the failure.
            try:
                self._finish(plugin, deliveries)
            except FencingError as error:
                log.info("%s", error)
            raise

    def _poll_loop(self, plugin: SourceTask, deliveries: Deliveries) -> None:
        polling = Polling(self._runtime, plugin)
        while True:
            verdict = self._view.verdict
            if verdict is not DesiredState.RUN:
                self._finish(plugin, deliveries)
                deliveries.check()
                if verdict not in (DesiredState.PAUSE, DesiredState.WAIT):
                    return
                polling.sit_out(verdict)
                continue
            batch = polling.poll()
            if batch:
                self._runtime.require_current()  # nothing fences it: a batch that comes too late must not be sent
                deliveries.send(batch)
            self._report_acknowledged(plugin, deliveries, 0.0)
            deliveries.check()
            if deliveries.flush_if_due(self._interval_s):
                plugin.commit()

    def _finish(self, plugin: SourceTask, deliveries: Deliveries) -> None:
        """Wait at most `offset.flush.timeout.ms` for what is being sent, then write the offsets that may be written."""
        self._report_acknowledged(plugin, deliveries, self._timeout_s)
        if deliveries.flush_all(self._timeout_s):
            plugin.commit()

    def _report_acknowledged(self, plugin: SourceTask, deliveries: Deliveries, seconds: float) -> None:
        for record in deliveries.take_acknowledged(seconds):
            plugin.commit_record(record)
        self._report.topics(deliveries.topics, self._view.topics_reset)
