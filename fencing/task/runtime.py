"""The objects that all parts of an attempt share."""

from dataclasses import dataclass
from typing import Final

from ringfence.fencing.clock import Clock, Deadline
from ringfence.fencing.records.record_path import RecordPath
from ringfence.fencing.task.attempt_report import TaskReport
from ringfence.fencing.task.config_view import DesiredState, TaskView
from ringfence.fencing.task.counters import Counters
from ringfence.fencing.task.plugin import Plugin
from ringfence.fencing.task.record_path_factory import record_path
from ringfence.fencing.task.start_progress import READING_OFFSETS
from ringfence.fencing.task.task_spec import TaskSpec

_PATIENCE_SECONDS: Final = 60.0


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
