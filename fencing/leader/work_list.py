"""Which connectors a pass of the leader has to look at. Of thousands, nearly all rest at nearly all times.

A connector rests if nothing is due for it, and if only these can change that: its records, statuses about it, the loss
of a worker that it has a place on, a time that is known, or whatever else the caller opens it for (`open`). All others
are open. The functions of a pass then take the part of the states that is about open connectors. What they need of the
rest, where its tasks stay, is kept here by place.

Connectors that rest are opened nevertheless, some in each pass and each about once a minute: a full pass in slices.
If something is due for one of them, a change was overlooked, which is a defect: `settle` returns it, to be logged.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from ringfence.fencing.ids import ConnectorName, TaskId
from ringfence.fencing.leader.fencing_round import plan
from ringfence.fencing.leader.next_placement import (
    ClusterView,
    Place,
    PlacementStep,
    RestartPolicy,
    look_at,
    next_restart_ms,
    place_of,
)
from ringfence.fencing.leader.reconcile import Settled, needs_tasks, patience_s, tasks_to_run, tombstones
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.connector_state import ConnectorState, Placement, TargetState
from ringfence.fencing.topics.status import StatusState

REVIEW_S: Final = 60.0
"""After so long, each connector that rests has been looked at."""
_MOST_REVIEWED: Final = 1_000
"""In one pass, which comes late."""


@dataclass(frozen=True, slots=True)
class Rest:
    """staying: the tasks that stay where they are; next_ms: the wall clock of the first restart of others, None for no
    restart.
    """

    staying: Sequence[TaskId]
    next_ms: int | None = None


def rest_of(
    connector: ConnectorState, status: StatusState, view: ClusterView, group_id: str, delay_s: float | None
) -> Rest | None:
    """Return how the connector rests, as far as decisions are concerned; None if something is due for it, or will be
    although nothing changes. delay_s: see `waiting_for`.
    """
    if needs_tasks(connector) or plan(connector, group_id) is not None or tombstones(connector):
        return None
    if connector.config is not None and any(
        _waits(placement, view.live, delay_s) for placement in connector.placements.values()
    ):
        return None
    staying: list[TaskId] = []
    restarts: list[int] = []
    for task in tasks_to_run(connector):
        candidate = look_at(connector, task, status, view)
        if candidate is None:
            # It has failed, since it does not wait for a worker.
            restarts += _restart_of(connector, task, status, view)
        elif candidate.next is PlacementStep.STAY:
            staying.append(task)
        else:
            return None
    return Rest(staying, min(restarts, default=None))


def _waits(placement: Placement, live: Set[Place], delay_s: float | None) -> bool:
    """Return whether its worker may come back, or the attempt before may end: `waiting_for` counts the time of both."""
    return bool(placement.after) or (place_of(placement) not in live and patience_s(placement.mode, delay_s) > 0)


def _restart_of(connector: ConnectorState, task: TaskId, status: StatusState, view: ClusterView) -> Sequence[int]:
    placement, report = connector.placements[task.task], status.tasks[task]
    if connector.target is not TargetState.RUNNING:
        return ()
    due_ms = next_restart_ms(RestartPolicy.of(connector.config or {}, view.settings), placement, report)
    return () if due_ms is None else (due_ms,)


class WorkList:
    """The work list of one term. At first, all connectors are open. Not thread-safe."""

    def __init__(self, group_id: str, settings: Mapping[str, str], delay_s: float | None) -> None:
        """settings: the worker's; delay_s: see `waiting_for`."""
        self._group_id = group_id
        self._settings = settings
        self._delay_s = delay_s
        self.state = ClusterState()
        """The whole state of the config topic, as of the last `follow`."""
        self.status = StatusState()
        """The same of the status topic."""
        self._live: Set[Place] = frozenset()
        self._open: set[ConnectorName] = set()
        self._parts: tuple[ClusterState, StatusState] | None = None
        """What `parts` returns, until something changes."""
        self._changed: set[ConnectorName] = set()
        """Since the pass began."""
        self._resting: dict[ConnectorName, ConnectorState] = {}
        self._staying: dict[Place, set[TaskId]] = {}
        self._failed: dict[Place, set[TaskId]] = {}
        """The other tasks of connectors that rest, by their last places."""
        self._restarts: list[tuple[int, ConnectorName]] = []
        """A heap of wall clock times."""
        self._review: Iterator[ConnectorName] = iter(())
        self._reviewed: set[ConnectorName] = set()
        """What is open in this pass only to be reviewed."""
        self._reviewed_at: float | None = None
        self._owed = 0.0
        """How many are to be reviewed now."""

    @property
    def names(self) -> Sequence[ConnectorName]:
        """The open connectors, in order."""
        return sorted(self._open)

    @property
    def settled(self) -> Settled:
        """What a decision needs of the others."""
        return Settled(self._staying, self.state, self.status)

    def parts(self) -> tuple[ClusterState, StatusState]:
        """Return the parts of both states that are about the open connectors."""
        if self._parts is None:
            names = self.names
            self._parts = self.state.part(names), self.status.part(names)
        return self._parts

    def begin(
        self,
        state: ClusterState,
        status: StatusState,
        live: Set[Place],
        now: float,
        now_ms: int,
        others: Callable[[], Iterable[ConnectorName]] = tuple,
    ) -> None:
        """Begin a pass. For the arguments, see `follow`. now: a monotonic clock's; others: returns names to be reviewed
        that neither topic may know.
        """
        self.follow(state, status, live, now_ms)
        self._changed.clear()
        self._reviewed.clear()
        if self._reviewed_at is not None:
            self._owed += (now - self._reviewed_at) * len(self._resting) / REVIEW_S
        self._reviewed_at = now
        count = min(int(self._owed), _MOST_REVIEWED)
        self._owed = min(self._owed - count, 1.0)
        for name in self._next_reviewed(count, others) if count else ():
            if name not in self._open:
                self._reviewed.add(name)
                self._wake(name)

    def _next_reviewed(self, count: int, others: Callable[[], Iterable[ConnectorName]]) -> Sequence[ConnectorName]:
        names = list(islice(self._review, count))
        if len(names) < count:
            sources = (self.state.connectors, self.status.connectors, self.status.numbers, self.status.topics, others())
            self._review = iter(dict.fromkeys(name for each in sources for name in each))
        return names

    def follow(self, state: ClusterState, status: StatusState, live: Set[Place], now_ms: int) -> None:
        """Take in the newest states, and open what has changed. live: the live workers' places; now_ms: wall clock."""
        if state is not self.state or status is not self.status:
            for name in state.changes_since(self.state) | status.changes_since(self.status):
                self.open(name)
            self.state, self.status, self._parts = state, status, None
        for place in self._live - live:
            for task in (*self._staying.get(place, ()), *self._failed.get(place, ())):
                self.open(task.connector)
        self._live = live
        while self._restarts and self._restarts[0][0] <= now_ms:
            self.open(heappop(self._restarts)[1])

    def open(self, name: ConnectorName) -> None:
        """Look at the connector from now on, and in the next pass, too: something about it has changed."""
        self._changed.add(name)
        self._reviewed.discard(name)
        self._wake(name)

    def _wake(self, name: ConnectorName) -> None:
        self._open.add(name)
        self._parts = None
        connector = self._resting.pop(name, None)
        if connector is None:
            return
        for number, placement in connector.placements.items():
            for tasks in (self._staying, self._failed):
                there = tasks.get(place_of(placement), set())
                there.discard(TaskId(name, number))
                if not there:
                    tasks.pop(place_of(placement), None)

    def settle(self, due: Set[ConnectorName], now_ms: int) -> list[ConnectorName]:
        """End the pass: let connectors rest for which nothing is due. due: those for which the caller has found
        something. Return those that rested although something was due for them.
        """
        self._parts = None
        view = ClusterView(self._live, {}, {}, 0.0, now_ms, self._settings)
        for name in [name for name in self._open if name not in due and name not in self._changed]:
            connector = self.state.connectors.get(name)
            if connector is None:
                self._open.discard(name)
            elif rest := rest_of(connector, self.status, view, self._group_id, self._delay_s):
                self._rest(connector, rest)
        self._open = set(self._open)  # a set that was large stays slow: it keeps its size when names are taken out
        return sorted(self._reviewed & self._open)

    def _rest(self, connector: ConnectorState, rest: Rest) -> None:
        name = connector.name
        self._open.discard(name)
        self._resting[name] = connector
        staying = set(rest.staying)
        for number, placement in connector.placements.items():
            task = TaskId(name, number)
            index = self._staying if task in staying else self._failed
            index.setdefault(place_of(placement), set()).add(task)
        if rest.next_ms is not None:
            heappush(self._restarts, (rest.next_ms, name))
