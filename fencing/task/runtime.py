"""The objects that all parts of an attempt share, and the record path that they put together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.kafka.topic_admin import TopicSpec, topic_exists
from ringfence.fencing.metrics import Measures
from ringfence.fencing.records.error_handling import ErrorPolicy, RecordErrors
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.records.topic_creation import TopicCreationGroups, TopicMaker, make
from ringfence.fencing.task.attempt_report import Counters, TaskReport
from ringfence.fencing.task.clients import admin_connection
from ringfence.fencing.task.config_view import DesiredState, TaskView
from ringfence.fencing.task.joint_reads import JointReads
from ringfence.fencing.task.start_progress import READING_OFFSETS
from ringfence.fencing.task.task_spec import Plugin, TaskSpec

_PATIENCE_SECONDS: Final = 60.0
_TOPIC_SECONDS: Final = 60.0


class Superseded(Exception):
    """The attempt must end. This is a normal end."""


@dataclass(frozen=True, slots=True)
class TaskRuntime:
    """The shared objects of an attempt: its configuration, its view of the config topic, its reports."""

    spec: TaskSpec
    plugin: Plugin
    view: TaskView
    report: TaskReport
    counters: Counters
    clock: Clock
    joint: JointReads | None = None

    @property
    def attempt(self) -> tuple[int, int, int]:
        """Task, generation and attempt."""
        return self.spec.task.task, self.spec.placement.generation, self.spec.placement.attempt

    def deadline(self, seconds: float = _PATIENCE_SECONDS) -> Deadline:
        return Deadline.after(seconds, self.clock)

    def is_superseded(self) -> bool:
        """Whether the attempt is superseded, as far as the view knows."""
        return self.view.verdict is DesiredState.END

    def refresh(self) -> bool:
        """Read the config topic to its end. Returns whether the attempt is superseded."""
        return self.view.refresh(self.deadline()) is DesiredState.END

    def require_current(self) -> None:
        """Raise `Superseded` if the attempt is."""
        if self.is_superseded():
            raise Superseded

    def open_s(self) -> float:
        """Return the age of the open transaction in seconds, 0 if none is open."""
        since = self.counters.open_since
        return self.clock.wall() - since if since else 0.0

    def report_reading(self, far: str) -> None:
        """Report how far the source offsets are read."""
        self.report.starting(READING_OFFSETS, far)

    def record_path(self, offsets_topic: str) -> RecordPath:
        """Create the path from the plugin's records to the producer."""
        return record_path(
            self.spec, self.plugin, offsets_topic, self.counters.measures, self.clock, self.view, self.report,
            self.require_current,
        )  # fmt: skip


def record_path(
    spec: TaskSpec,
    plugin: Plugin,
    offsets_topic: str,
    measures: Measures,
    clock: Clock,
    view: TaskView,
    report: TaskReport,
    stopping: Callable[[], None],
) -> RecordPath:
    """Return a path that is ready to prepare batches. stopping: raises if the attempt must end.

    Raises `FencingError` if the dead letter topic cannot be created, `ValueError` for settings that validation refuses,
    `ConnectorError` if the connector may not write to the dead letter topic.
    """

    def pause(seconds: float) -> None:
        view.wait_while(frozenset({DesiredState.RUN}), seconds)
        stopping()

    def show_stage(text: str) -> None:
        report.stage("running", text)

    policy = ErrorPolicy.of(spec.connector_config)
    rules = TopicCreationGroups.of(spec.connector_config, spec.worker_settings)
    config = spec.connector_config
    errors = RecordErrors(policy, plugin.convert, spec.task, measures, clock, pause, plugin.redact, config)
    if policy.dead_letters is not None:
        view.topic_access.check(policy.dead_letters)
        _dead_letter_topic(spec, policy.dead_letters, rules, clock, show_stage)
    ensure = None if rules is None else TopicMaker(admin_connection(spec), rules, clock, show_stage).ensure
    return RecordPath(plugin.convert, offsets_topic, errors=errors, ensure=ensure, access=lambda: view.topic_access)


def _dead_letter_topic(
    spec: TaskSpec, topic: str, rules: TopicCreationGroups | None, clock: Clock, report: Callable[[str], None]
) -> None:
    """Create the dead letter topic before the first bad record needs it."""
    deadline = Deadline.after(_TOPIC_SECONDS, clock)
    there = admin_connection(spec)
    if not topic_exists(there, topic, deadline):
        make(there, TopicSpec(topic) if rules is None else rules.spec(topic), deadline, report)
