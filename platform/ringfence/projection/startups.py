"""Counts startups, as Kafka Connect's workers do, but from changes of state in the status topic."""

from collections import Counter, defaultdict

from django.db.models import F

from ringfence.fencing.topics.status import RESTARTED, State, TaskStatus
from ringfence.projection.clean_text import clean
from ringfence.projection.models import Connector, Startups, Task

_UP = frozenset({State.RUNNING, State.PAUSED})


class Starting:
    """The startups of one batch of statuses, written once, inside the batch's transaction."""

    def __init__(self) -> None:
        self._workers: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._restarts: Counter[tuple[str, int]] = Counter()

    def task(self, before: TaskStatus | None, now: TaskStatus) -> None:
        """Add a task's status that replaces the previous one."""
        new = before is None or (before.generation, before.attempt) != (now.generation, now.attempt)
        was = None if new or before is None else before.state
        counts = self._workers[clean(now.worker)]
        counts["task_attempts"] += new
        counts["task_successes"] += now.state in _UP and was not in _UP
        counts["task_failures"] += now.state is State.FAILED and was not in _UP and was is not State.FAILED
        if new and now.why == RESTARTED and now.restarts:
            self._restarts[now.task.connector, now.task.task] += 1

    def connector(self, before: str, row: Connector) -> None:
        """Add a connector's status. before: its state until now."""
        counts = self._workers[row.worker]
        counts["connector_successes"] += row.state in _UP and before not in _UP
        counts["connector_failures"] += row.state == State.FAILED != before

    def write(self) -> None:
        """Add to the rows, with one or two queries for each worker that started something."""
        for worker, counts in self._workers.items():
            gained = {name: count for name, count in counts.items() if count}
            if worker and gained:
                Startups.objects.get_or_create(worker=worker)
                Startups.objects.filter(worker=worker).update(**{name: F(name) + n for name, n in gained.items()})
        for (connector, number), count in self._restarts.items():
            Task.objects.filter(connector=connector, number=number).update(auto_restarts=F("auto_restarts") + count)
