"""Follows the config topic, and starts the attempts that are placed on this incarnation of the worker.

A superseded attempt ends by itself, since it follows the config topic, too. One that does not is fenced.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ringfence import telemetry
from ringfence.connectors.java.runtime import JavaRuntime
from ringfence.connectors.sdk.worker_limits import WorkerLimits
from ringfence.engine.config_topic import ConfigTopic
from ringfence.engine.platform_topics import topics_of
from ringfence.engine.plugins.environments import Environments
from ringfence.engine.spark.driver import Lost, SparkHost, group_of
from ringfence.fencing.errors import FencingError, Retriable
from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.modes import MODE_KEY, Mode
from ringfence.fencing.offsets.source_offsets import MOST_BYTES, OffsetsSnapshot
from ringfence.fencing.offsets.view import OffsetsView
from ringfence.fencing.request_context import working_for
from ringfence.fencing.task.task_spec import Outcome, TaskSpec
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.config_records.format import FORMAT, refuse_old
from ringfence.fencing.topics.connector_state import ConnectorState, Placement
from ringfence.fencing.topics.log_levels import ClusterLevels
from ringfence.fencing.topics.reporter import Reporter
from ringfence.fencing.topics.status import LOST, STARTING, SUPERSEDED, State, TaskStatus, WorkerRecord
from ringfence.fencing.topics.status_entry import error_of
from ringfence.fencing.topics.topic_ids import TopicIds
from ringfence.memory_limit import MEMORY_LIMIT
from ringfence.task_slots import find_shortage, free_memory, runs_tasks_here, task_bytes
from ringfence.worker_config import WorkerConfig

log = logging.getLogger(__name__)

_WAIT_SECONDS = 0.2
_OVERDUE_SECONDS = 30.0
_LOOK_SECONDS = 1.0
_TELL_SECONDS = 5.0
_TAKING_SECONDS = 10.0
"""For so long a task may not yet have all the memory that a small one needs."""

_FOR_TASKS = (
    "key.converter",
    "value.converter",
    "header.converter",
    MODE_KEY,
    "offset.flush.interval.ms",
    "offset.flush.timeout.ms",
    "transaction.timeout.ms",
    "topic.tracking.enable",
    MEMORY_LIMIT,
)
_PREFIXES = ("producer.", "consumer.", "admin.", "offset.storage.", "config.providers")


class Launcher:
    """Acts on the config topic. `run` is the body of a thread."""

    def __init__(
        self,
        config: WorkerConfig,
        worker: WorkerRecord,
        reporter: Reporter,
        config_topic: ConfigTopic,
        limits: WorkerLimits | None = None,
        view: OffsetsView | None = None,
        ids: TopicIds | None = None,
        java: JavaRuntime | None = None,
        free: Callable[[], int] = free_memory,
    ) -> None:
        """config_topic: followed on another thread. limits: what connectors must not access; None closes all files.
        view: of the offsets topic; an attempt gets its connector's part of it, and reads the whole topic without one.
        ids: the cluster's topics; an attempt ends if one of them is replaced. java: runs Java connectors; None if none
        may run. free: tells the bytes that are left for tasks here.
        """
        self._config = config
        self._config_topic = config_topic
        self._view = view
        self._told_at = 0.0
        self._free = free if runs_tasks_here(config.settings) else None
        self._started_at: list[float] = []
        self._topics = topics_of(config, ids)
        self._worker = worker
        self._reporter = reporter
        self._connection = config.connection(f"ringfence-{worker.worker}")
        self._spark: SparkHost | None = None
        self._newest_placements: dict[ConnectorName, dict[int, Placement]] = {}
        """The newest placements that were started here, as long as they are the newest."""
        self._specs: list[TaskSpec] = []
        self._overdue: dict[str, float] = {}
        self._look_at = 0.0
        self._last_state = ClusterState()
        self._waiting: set[ConnectorName] = set()
        """The connectors with a task that is placed here, and must wait."""
        self._untold: deque[tuple[TaskSpec, TaskStatus]] = deque()
        """Ends of attempts that Kafka did not take. The leader places a task again only when it knows of its end."""
        self._settings = {
            key: value
            for key, value in config.settings.items()
            if key in _FOR_TASKS or ".converter." in key or key.startswith(_PREFIXES)
        } | (limits or WorkerLimits()).as_settings()
        if java is not None:
            self._settings |= java.as_settings()
        self._environments = Environments(config.plugin_folders)
        self._levels = ClusterLevels()
        self.failure: str | None = None

    def run(self, spark: SparkHost, stop: threading.Event, end: Callable[[], None] = lambda: None) -> None:
        """Run until `stop`. end: called once this version is too old for the cluster; tasks commit then, and end."""
        self._spark = spark
        before: ClusterState | None = None
        while not stop.is_set():
            try:
                state = self._config_topic.await_change(before, _WAIT_SECONDS)
                if state is not None:
                    if refusal := refuse_old(state.format, FORMAT):
                        log.error("%s", refusal)
                        end()
                        stop.wait()
                        break
                    if state is not before or self._waiting:
                        self._levels.follow(state.loggers)
                        self._start_placed(state)
                        before = state
                    self._cancel_overdue(state)
                    self._report_again(state)
                self._config_topic.check()
                self.failure = None
            except Retriable as error:
                log.info("The launcher waits: %s", error)
                stop.wait(_WAIT_SECONDS)
            except FencingError as error:
                if self.failure is None:
                    log.error("Placements cannot be read: %s", error)  # noqa: TRY400 - the follower logs the trace
                self.failure = str(error)
                stop.wait(1.0)

    def _start_placed(self, state: ClusterState) -> None:
        delays: set[ConnectorName] = set()
        waiting: list[tuple[TaskId, Placement]] = []
        short: list[tuple[TaskId, Placement]] = []
        shortage = ""
        for connector, task, placement in self._find_new(state):
            if self._must_wait(task):
                delays.add(connector.name)
                continue
            if self._view is not None and self._view.waiting:
                delays.add(connector.name)
                waiting.append((task, placement))
                continue
            if shortage := shortage or self._find_shortage():
                delays.add(connector.name)
                short.append((task, placement))
                continue
            self._newest_placements.setdefault(connector.name, {})[task.task] = placement
            self._start(connector, task, placement)
        self._last_state, self._waiting = state, delays
        if (waiting or short) and time.monotonic() - self._told_at >= _TELL_SECONDS:
            self._told_at = time.monotonic()
            if waiting and self._view is not None:
                # So that not each one reads the offsets topic.
                self._tell_waiting(waiting, STARTING, "reading source offsets", self._view.describe_progress())
            if short:
                log.warning("%d tasks are not started: %s", len(short), shortage)
                self._tell_waiting(short, shortage, "waiting for memory", shortage)

    def _find_new(self, state: ClusterState) -> Iterator[tuple[ConnectorState, TaskId, Placement]]:
        """Return the placements here whose attempts were not started yet: of connectors that have changed since the
        last call, or that had to wait.
        """
        for name in sorted(state.changes_since(self._last_state) | self._waiting):
            connector = state.connector(name)
            newest = self._forget_replaced(connector)
            for number, placement in connector.placements.items():
                task = TaskId(name, number)
                mine = (placement.worker, placement.incarnation) == (self._worker.worker, self._worker.incarnation)
                if mine and newest.get(number) != placement and connector.may_run(number, placement):
                    yield connector, task, placement

    def _forget_replaced(self, connector: ConnectorState) -> Mapping[int, Placement]:
        """Forget the placements that another one has followed, or none: no attempt comes back. Return the others that
        were started here.
        """
        before = self._newest_placements.pop(connector.name, {})
        newest = {number: one for number, one in before.items() if connector.placements.get(number) == one}
        if newest:
            self._newest_placements[connector.name] = newest
        return newest

    def _find_shortage(self) -> str:
        """Return why no task can be started now, "" if one can. A task more than the memory carries would slow down, or
        end, those that run."""
        if self._free is None:
            return ""
        now = time.monotonic()
        self._started_at = [at for at in self._started_at if now - at < _TAKING_SECONDS]
        return find_shortage(self._free(), len(self._started_at), task_bytes(self._config.settings))

    def _tell_waiting(self, waiting: Sequence[tuple[TaskId, Placement]], why: str, stage: str, message: str) -> None:
        """Report attempts that are placed here, and cannot be started yet."""
        for task, placement in waiting:
            self._event(task, placement, stage, message)
            self._reporter.status(
                TaskStatus(
                    task,
                    State.UNASSIGNED,
                    placement.worker,
                    placement.generation,
                    placement.attempt,
                    placement.incarnation,
                    why=why,
                    since_ms=self._reporter.now_ms(),
                    restarts=placement.restarts,
                )
            )

    def _event(self, task: TaskId, placement: Placement, stage: str, message: str) -> None:
        self._reporter.event(
            "task",
            task.connector,
            task=task.task,
            generation=placement.generation,
            attempt=placement.attempt,
            worker=placement.worker,
            stage=stage,
            message=message,
        )

    def _must_wait(self, task: TaskId) -> bool:
        """Return whether an older attempt still runs here that nothing fences, because it has no transactions."""
        assert self._spark is not None
        if self._config.mode == Mode.ENABLED:
            return False
        return any(spec.task == task and self._spark.runs(spec) for spec in self._specs)

    def _start(self, connector: ConnectorState, task: TaskId, placement: Placement) -> None:
        assert self._spark is not None
        config = connector.tasks[task.task].config
        spec = TaskSpec(
            self._connection,
            self._config.group_id,
            self._topics,
            task,
            placement,
            config.get("task.class", ""),
            connector.config or {},
            config,
            self._settings,
            self._snapshot(connector.name),
            connector.request,
            telemetry.is_on(),
        )
        self._specs.append(spec)
        self._started_at.append(time.monotonic())
        with working_for(spec.request):
            log.info("Starting %s, generation %d, attempt %d", task, placement.generation, placement.attempt)
        environment = self._environments.find_for(spec.connector_config)
        self._spark.submit(spec, self.on_end, None if environment is None else environment.as_variables())

    def _snapshot(self, connector: ConnectorName) -> OffsetsSnapshot | None:
        snapshot = self._view.snapshot(connector) if self._view is not None else None
        if snapshot is not None and snapshot.size > MOST_BYTES:
            log.info("Connector %s has %d MiB of source offsets: its tasks read them", connector, snapshot.size >> 20)
            return None
        return snapshot

    def _cancel_overdue(self, state: ClusterState) -> None:
        """Have Spark end superseded attempts that do not end by themselves (their plugin hangs): they occupy slots."""
        assert self._spark is not None
        if (now := time.monotonic()) < self._look_at:
            return
        self._look_at = now + _LOOK_SECONDS
        self._specs = [spec for spec in self._specs if self._spark.runs(spec)]
        for spec in self._specs:
            if state.connector(spec.task.connector).may_run(spec.task.task, spec.placement):
                continue
            since = self._overdue.setdefault(group_of(spec), time.monotonic())
            if time.monotonic() - since > _OVERDUE_SECONDS:
                log.warning("Task %s, attempt %d does not end; cancelling its job", spec.task, spec.placement.attempt)
                self._spark.cancel(spec)
                self._overdue[group_of(spec)] = time.monotonic()
        running = {group_of(spec) for spec in self._specs}
        self._overdue = {group: since for group, since in self._overdue.items() if group in running}

    def on_end(self, spec: TaskSpec, result: Outcome | Lost) -> None:
        """Handle the end of an attempt. A lost one is reported, so that the leader places it again."""
        with working_for(spec.request):
            self._tell_end(spec, result)

    def _tell_end(self, spec: TaskSpec, result: Outcome | Lost) -> None:
        placement = spec.placement
        if isinstance(result, Lost):
            log.warning("Task %s, attempt %d was lost: %s", spec.task, placement.attempt, result.reason)
            self._event(spec.task, placement, "lost", result.reason)
            self._report_end(spec, self._report(spec, State.UNASSIGNED, LOST, None, left_open=True))
        elif result.trace is not None:
            # The task reports it, too. This is in case its last report was not sent.
            log.warning("Task %s, attempt %d failed: %s", spec.task, placement.attempt, error_of(result.trace))
            status = self._report(spec, State.FAILED, result.reason, result.trace, left_open=result.left_open)
            self._report_end(spec, replace(status, failure=result.failure))
        else:
            log.info("Task %s, attempt %d ended: %s", spec.task, placement.attempt, result.reason)
            if spec.mode is not Mode.ENABLED:
                # The leader waits for this before the next attempt may start elsewhere, so it is reported twice, too.
                self._report_end(spec, self._report(spec, State.UNASSIGNED, SUPERSEDED, None))

    def _report_end(self, spec: TaskSpec, status: TaskStatus) -> None:
        def note(delivered: bool) -> None:
            if not delivered:
                self._untold.append((spec, status))

        self._reporter.status(status, note)

    def _report_again(self, state: ClusterState) -> None:
        """Report again what Kafka did not take, unless a newer attempt has been placed."""
        self._reporter.serve()
        for _ in range(len(self._untold)):
            spec, status = self._untold.popleft()
            is_newest = state.connector(spec.task.connector).may_run(spec.task.task, spec.placement)
            if is_newest or spec.mode is not Mode.ENABLED:
                log.info("The end of task %s, attempt %d is reported again", spec.task, spec.placement.attempt)
                self._report_end(spec, status)

    def _report(
        self, spec: TaskSpec, state: State, why: str, trace: str | None, *, left_open: bool = False
    ) -> TaskStatus:
        placement = spec.placement
        return TaskStatus(
            spec.task,
            state,
            placement.worker,
            placement.generation,
            placement.attempt,
            placement.incarnation,
            trace,
            ended=True,
            why=why,
            since_ms=self._reporter.now_ms(),
            restarts=placement.restarts,
            left_open=left_open,
        )
