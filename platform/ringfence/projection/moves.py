"""Writes into a connector's timeline that a worker is gone which ran its tasks."""

from collections import Counter

from ringfence.connectors.plural_forms import write_count
from ringfence.fencing.topics.status import State, TaskStatus
from ringfence.projection.clean_text import clean
from ringfence.projection.models import Event, Worker

_AT_WORK = (State.RUNNING, State.PAUSED)


class Moves:
    """The tasks of one batch of statuses that got another attempt while the one before was at work elsewhere."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._times: dict[tuple[str, str, str], int] = {}

    def note(self, before: TaskStatus | None, now: TaskStatus, time_ms: int) -> None:
        """Add a task's status that replaces the previous one."""
        if before is None or before.state not in _AT_WORK or before.generation != now.generation:
            return
        if before.attempt == now.attempt or before.incarnation in ("", now.incarnation):
            return
        key = now.task.connector, before.worker, before.incarnation
        self._counts[key] += 1
        self._times[key] = time_ms

    def write(self) -> None:
        """Write an event for each connector and worker. A worker that still lives was drained, or gave tasks away."""
        living = set(Worker.objects.values_list("worker", "incarnation")) if self._counts else set()
        for key, count in self._counts.items():
            connector, worker, incarnation = key
            if (worker, incarnation) not in living:
                tasks = "its task starts" if count == 1 else f"{write_count(count, 'task')} of it start"
                Event.objects.create(
                    connector=clean(connector),
                    type="warning",
                    time_ms=self._times[key],
                    summary=f"{clean(worker)} is gone or was started again: {tasks} again from the committed offsets",
                )
