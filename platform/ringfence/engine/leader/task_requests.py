"""Handles tasks that request new task configurations because some of their source partitions are complete."""

from collections.abc import Callable
from typing import Final

from ringfence.fencing.ids import TaskId
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.status import StatusState

_AT_REST: Final = frozenset({TargetState.STOPPED, TargetState.PAUSED})


class TaskRequests:
    """Passes each request on once to `ask`, which returns whether it was accepted.

    A new leader repeats the requests of its predecessor, which is harmless: equal task configurations change nothing.
    """

    def __init__(self, ask: Callable[[ConnectorState], bool]) -> None:
        self._ask = ask
        self._heard: dict[TaskId, int] = {}

    def note(self, state: ClusterState, status: StatusState) -> None:
        """Take in the newest state. Requests of older generations are answered already."""
        for task, report in status.tasks.items():
            if not report.reconfigure_ms or report.reconfigure_ms == self._heard.get(task):
                continue
            connector = state.connector(task.connector)
            if connector.config is None or connector.commit is None or connector.target in _AT_REST:
                continue
            if report.generation != connector.commit.generation or self._ask(connector):
                self._heard[task] = report.reconfigure_ms
        self._heard = {task: heard for task, heard in self._heard.items() if task in status.tasks}
