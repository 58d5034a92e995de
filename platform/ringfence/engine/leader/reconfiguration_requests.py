"""Handles tasks that request new task configurations because some of their source partitions are complete."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ringfence.fencing.ids import TaskId
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState, TargetState
from ringfence.fencing.topics.status import StatusState

_AT_REST: Final = frozenset({TargetState.STOPPED, TargetState.PAUSED})
_PAUSES: Final = (1.0, 4.0, 15.0)
"""Seconds until a request without effect is passed on again."""


@dataclass(frozen=True, slots=True)
class _Request:
    """reconfigure_ms: identifies it; passed: how often it was passed on; due: when it is passed on again."""

    reconfigure_ms: int
    passed: int = 0
    due: float = 0.0


class TaskRequests:
    """Passes each request on to `ask`, which returns whether it was accepted.

    A request that leads to no new generation is repeated a few times: the commit that it is about may not be visible
    yet (its markers come after the broker's answer, and any open transaction hides it), and the connector may not have
    answered. A new leader repeats the requests of its predecessor. Both are harmless: equal task configurations change
    nothing.
    """

    def __init__(self, ask: Callable[[ConnectorState], bool]) -> None:
        self._ask = ask
        self._requests: dict[TaskId, _Request] = {}

    def note(self, state: ClusterState, status: StatusState, now: float) -> None:
        """Take in the newest state. Requests of older generations are answered already. now: a monotonic clock's."""
        for task, report in status.tasks.items():
            connector = state.connector(task.connector)
            if (
                not report.reconfigure_ms
                or connector.commit is None
                or report.generation != connector.commit.generation
            ):
                continue
            request = self._requests.get(task)
            if request is None or request.reconfigure_ms != report.reconfigure_ms:
                request = _Request(report.reconfigure_ms)
            if request.passed > len(_PAUSES) or now < request.due:
                continue
            if connector.config is None or connector.target in _AT_REST:
                continue
            if self._ask(connector):
                pause = _PAUSES[min(request.passed, len(_PAUSES) - 1)]
                self._requests[task] = _Request(request.reconfigure_ms, request.passed + 1, now + pause)
        self._requests = {task: request for task, request in self._requests.items() if task in status.tasks}
