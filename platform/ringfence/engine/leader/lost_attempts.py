"""Decides how long the leader waits before it places the tasks of lost attempts and workers again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringfence.fencing.backoff import Backoff
from ringfence.fencing.ids import TaskId
from ringfence.fencing.leader.assignment import LiveWorker
from ringfence.fencing.leader.next_placement import Place, status_of
from ringfence.fencing.leader.reconcile import waiting_for
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.status import FAILED, MISCONFIGURED, StatusState

_FORGIVEN_SECONDS = 60.0
_BACKOFF = Backoff(1.0, 30)


@dataclass(frozen=True, slots=True)
class _Loss:
    attempt: tuple[int, int]
    times: int
    not_before: float


class LostAttempts:
    """The losses that one term has seen. A new leader knows none, so it waits again rather than not at all."""

    def __init__(self, delay_s: float | None) -> None:
        """delay_s: how long to wait for a worker that left (`scheduled.rebalance.max.delay.ms`); None if not set."""
        self._delay_s = delay_s
        self._losses: dict[TaskId, _Loss] = {}
        self._held_until: dict[Place, float] = {}

    @property
    def not_before(self) -> Mapping[TaskId, float]:
        """The monotonic times before which lost tasks are not placed again."""
        return {task: loss.not_before for task, loss in self._losses.items()}

    @property
    def held_until(self) -> Mapping[Place, float]:
        """The monotonic times until which the tasks of a worker that left wait for it."""
        return self._held_until

    def note(self, state: ClusterState, status: StatusState, members: Sequence[LiveWorker], now: float) -> None:
        """Take in the newest state. If a task is lost again and again, the pauses before its next placement grow."""
        self._held_until = waiting_for(state, members, self._held_until, self._delay_s, now, status)
        for connector in state.existing():
            for number, placement in connector.placements.items():
                task = TaskId(connector.name, number)
                task_status = status_of(status, task, placement)
                attempt = (placement.generation, placement.attempt)
                loss = self._losses.get(task)
                # The newest attempt cannot be superseded: if it says so, it ended for another reason and is lost, too.
                if task_status is None or not task_status.ended or task_status.why in (FAILED, MISCONFIGURED):
                    continue
                if loss is not None and loss.attempt == attempt:
                    continue
                recent = loss is not None and now - loss.not_before < _FORGIVEN_SECONDS
                times = loss.times + 1 if loss is not None and recent else 0
                self._losses[task] = _Loss(attempt, times, now + _BACKOFF.pause(times))
