"""One run of a source task with transactions: steps 3 to 8 of its start (`fencing.task.source_task`)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from ringfence.connectors.api import SourceTask
from ringfence.connectors.sdk.kafka_settings.java_names import Role
from ringfence.fencing.errors import Abortable, FencingError
from ringfence.fencing.kafka.connection import resolve_settings, timeout_in
from ringfence.fencing.kafka.open_transactions import GROUP_OFFSETS
from ringfence.fencing.offsets.source_offsets import SourceOffsets
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.share.share_group_source import ShareSource
from ringfence.fencing.task import start_progress
from ringfence.fencing.task.admission import Admission, TaskLeftovers, timeouts_explained
from ringfence.fencing.task.boundaries import Boundary, SnapshotEndings
from ringfence.fencing.task.clients import batch_reader, group_source
from ringfence.fencing.task.config_view import DesiredState
from ringfence.fencing.task.context import TaskContext
from ringfence.fencing.task.group_source import GroupSource
from ringfence.fencing.task.poll_loop import PollLoop, due_in
from ringfence.fencing.task.runtime import Superseded, TaskRuntime
from ringfence.fencing.task.share_group_input import ShareGroupMembership
from ringfence.fencing.task.task_offsets import Positions, TaskOffsets
from ringfence.fencing.task.task_spec import TaskSpec, overrides
from ringfence.fencing.task.transaction_context import RequestedEndings
from ringfence.fencing.task.transactions import Transactions
from ringfence.fencing.topics.status import State
from ringfence.fencing.transactions.client import TransactionalClient
from ringfence.fencing.transactions.settings import encoded_batch_bytes, request_bytes

_PREPARE_SECONDS: Final = 2.0

First = Mapping[tuple[str, int], int] | None
NewProducer = Callable[[TaskSpec, int], TransactionalClient]


class TransactionalRun:
    """The runs of one attempt, one after another: see `run`."""

    def __init__(self, runtime: TaskRuntime, new_producer: NewProducer) -> None:
        spec = runtime.spec
        worker = spec.worker_settings
        self._runtime = runtime
        self._new_producer = new_producer
        producer_settings = resolve_settings(Role.PRODUCER, worker, spec.connector_config).settings
        self._producer_settings = producer_settings
        self._encoded_batch_bytes = encoded_batch_bytes(producer_settings)
        self._most_batch_bytes = request_bytes(producer_settings)
        self._boundaries = spec.boundaries
        self._timeout_ms = self._boundaries.transaction_timeout_ms(
            timeout_in(producer_settings, worker, spec.connector_config)
        )
        self.leftovers = TaskLeftovers(
            spec, runtime.clock, runtime.report.hanging_ended, runtime.require_current, runtime.joint
        )
        self.share = ShareGroupMembership(
            spec,
            self._boundaries,
            runtime.clock,
            lambda: runtime.view.tasks,
            runtime.is_superseded,
            lambda: runtime.view.sweep_request,
        )
        runtime.report.locked_ranges = lambda: self.share.locked_ranges
        self.offsets_topic = spec.topics.offsets
        """The effective offsets topic, as soon as it is known."""
        self.left_open = False
        """Whether the last run may have left a transaction open."""
        self._prepared: TransactionalClient | None = None
        self._offsets: TaskOffsets | None = None

    def prepare(self) -> None:
        """While the attempt waits for the fence of the generation before, do what needs no fence: connect, and read the
        source offsets that are committed so far. Then the steps only read the rest.

        What prevents it is met again by `run`, which raises it.
        """
        if self._prepared is not None:
            return
        runtime = self._runtime
        with suppress(FencingError):
            self._prepared = self._new_producer(runtime.spec, self._timeout_ms)
            self._offsets = offsets = TaskOffsets(runtime.spec, runtime.clock, joint=runtime.joint)
            self._prepared.prepare([offsets.topic] if offsets.is_workers else [], runtime.deadline(_PREPARE_SECONDS))
            self.leftovers.connect()
            if offsets.is_workers:
                offsets.read(lambda: runtime.view.verdict is not DesiredState.WAIT)

    def close(self) -> None:
        """Close what is left of the last run, or of `prepare`."""
        if self._prepared is not None:
            self._prepared.close()
            self._prepared = None
        self.leftovers.close()

    def run(self) -> bool:
        """Do steps 3 to 8. Returns False if the next run must follow at once (`PollLoop.run`)."""
        runtime, report = self._runtime, self._runtime.report
        report.stage(start_progress.INITIALISING)
        producer = self._take_id()  # 3, 4
        transactions: Transactions | None = None
        plugin: SourceTask | None = None
        own = RequestedEndings() if self._boundaries.kind is Boundary.CONNECTOR else None
        requests = self._snapshot_endings() or own

        def join(group: str, topics: Sequence[str], *, session_timeout_ms: int, first: First = None) -> GroupSource:
            assert transactions is not None
            transactions.group = group_source(runtime.spec, group, topics, session_timeout_ms, first or {})
            return transactions.group

        def join_share(
            group: str | None,
            topics: Sequence[str],
            settings: Mapping[str, str],
            *,
            cluster: Mapping[str, str] | None = None,
        ) -> ShareSource:
            assert transactions is not None
            transactions.share = self.share.join(task_offsets, offsets, group, topics, settings, cluster)
            transactions.share.exhausted_records.make_dead_letter = path.dead_letter
            return transactions.share

        try:
            report.stage(start_progress.READING_OFFSETS)
            task_offsets = self._offsets or TaskOffsets(runtime.spec, runtime.clock, joint=runtime.joint)
            self._offsets = None
            self.offsets_topic = task_offsets.topic
            self.leftovers.begin(producer, task_offsets.topic)
            task_offsets.prepare()  # 5
            offsets = task_offsets.read(runtime.is_superseded, runtime.report_reading)  # 6
            runtime.view.check_topics(runtime.deadline())
            runtime.require_current()
            report.gauges.clear()
            plugin = runtime.plugin.make()
            path = runtime.record_path(task_offsets.topic)
            transactions = self._transactions(producer, task_offsets, offsets, plugin, path)
            plugin.context = TaskContext(
                runtime,
                offsets,
                lambda: due_in(transactions, self._boundaries, runtime.clock),
                own,
                join,
                join_share,
                read_offsets=lambda: task_offsets.read(runtime.is_superseded),
                encoded_batch_bytes=self._encoded_batch_bytes,
                count_partitions=transactions.count_partitions,
                read_batches=lambda settings, isolation: batch_reader(settings, isolation, self._most_batch_bytes),
                admit=Admission(runtime, path, self._producer_settings).admit,
            )
            report.stage("starting the plugin")
            plugin.start(runtime.plugin.config)  # 7
            transactions.positions = Positions() if plugin.wants_positions else None
            path.keeps_rows = plugin.wants_positions
            report.stage("looking for hanging transactions")
            self.leftovers.clear({task_offsets.topic} | ({GROUP_OFFSETS} if transactions.group is not None else set()))
            report.producer(producer)
            report.running(State.RUNNING)
            with timeouts_explained(runtime.open_s, self._timeout_ms):
                loop = self._loop(plugin, transactions, task_offsets, requests)
                if transactions.group is not None:
                    transactions.group.finish = loop.commit_now
                return loop.run()  # 8
        finally:
            if transactions is not None:
                self.left_open = transactions.abandon(5.0)
            else:
                producer.close()
            if transactions is not None and transactions.group is not None:
                transactions.group.close()
            if plugin is not None:
                plugin.stop()

    def _take_id(self) -> TransactionalClient:
        producer = self._prepared or self._new_producer(self._runtime.spec, self._timeout_ms)
        self._prepared = None
        try:
            producer.init(self._runtime.deadline())  # 3
            self.left_open = False
            if self._runtime.refresh():  # 4
                raise Superseded
        except BaseException:
            producer.close()
            raise
        return producer

    def _snapshot_endings(self) -> RequestedEndings | None:
        """Return the endings for a connector whose snapshot is one transaction."""
        timeout_s = self._boundaries.snapshot_ms / 1000
        return SnapshotEndings(timeout_s, self._runtime.open_s) if timeout_s else None

    def _loop(
        self,
        plugin: SourceTask,
        transactions: Transactions,
        task_offsets: TaskOffsets,
        requests: RequestedEndings | None,
    ) -> PollLoop:
        return PollLoop(
            self._runtime,
            plugin,
            transactions,
            self._boundaries,
            requests=requests,
            renew=lambda spent, why: self._renew(spent, task_offsets, why),
        )

    def _transactions(
        self,
        producer: TransactionalClient,
        task_offsets: TaskOffsets,
        offsets: SourceOffsets,
        plugin: SourceTask,
        path: RecordPath,
    ) -> Transactions:
        report = self._runtime.report
        return Transactions(
            self._runtime,
            producer,
            task_offsets.topic,
            offsets,
            path,
            commit_timeout_s=self._timeout_ms / 1000,
            keep_records=overrides(plugin, "commit_record"),
            single_batches=self._boundaries.kind is Boundary.POLL,
            copy=task_offsets.copy(offsets, lambda text: report.stage("copying offsets", text)),
            clear=self.leftovers.clear,
        )

    def _renew(self, transactions: Transactions, task_offsets: TaskOffsets, why: str) -> None:
        """Start a new epoch, which fences what the old producer may still send, and read what is really committed."""
        if transactions.share is not None:
            raise Abortable(f"{why}: the task continues from the ledger")
        if transactions.group is not None:
            raise Abortable(f"{why}: the task continues from the group's committed offsets")
        runtime = self._runtime
        runtime.report.stage(start_progress.RENEWING, why)
        runtime.counters.measures.producers_renewed += 1
        transactions.retire()
        producer = self._take_id()
        transactions.take_over(producer)
        self.leftovers.begin(producer, task_offsets.topic)
        offsets = task_offsets.read(runtime.is_superseded)
        runtime.view.check_topics(runtime.deadline())
        transactions.check(offsets)
        runtime.report.producer(producer)
        runtime.report.going_on()
