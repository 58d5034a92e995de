"""The next placement of a task: `look_at` says what is due, `next_record` what to write once a worker is assigned.

In between, `assign` chooses the workers. A placement is an attempt's right to run: its record names the worker, and the
next attempt of the same generation replaces it.

The assignment is a pure function of the members and of where the tasks are now: spread tasks evenly, move as few as
possible, respect slots. A task stays where it is while that worker is alive, unless that worker has at least two tasks
more than another (KIP-415's aim, without its delay).

A failed task is restarted after growing pauses, until it is given up (`RestartPolicy`). The count is in the placement
record, so it survives a change of leader: `restarts` in a row so far, and `placed_ms`, which shows how long the attempt
was stable. A manual restart and a new generation start at 0.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from ringfence.connectors.api import ConfigException
from ringfence.connectors.common_settings import AUTO_RESTART_ENABLED, AUTO_RESTART_MAX_ATTEMPTS
from ringfence.fencing.ids import Generation, Incarnation, TaskId, WorkerId
from ringfence.fencing.modes import Mode
from ringfence.fencing.topics.config_records import PlacementRecord
from ringfence.fencing.topics.connector_state import ConnectorState, Placement, TargetState
from ringfence.fencing.topics.status import FAILED, MISCONFIGURED, State, StatusState, TaskStatus

FIRST_S: Final = 10
LONGEST_S: Final = 600
STABLE_S: Final = 600
"""An attempt that ran this long resets the count."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Whether to restart, and how many times in a row."""

    enabled: bool = True
    max_attempts: int = 7

    @classmethod
    def of(cls, connector: Mapping[str, str], worker: Mapping[str, str]) -> "RestartPolicy":
        """Read the connector's settings, else the worker's with the same names. A value that cannot be read counts as
        the default: validation has already refused it.
        """
        setting = connector.get(AUTO_RESTART_ENABLED, worker.get(AUTO_RESTART_ENABLED, "true")).strip().lower()
        attempts = connector.get(AUTO_RESTART_MAX_ATTEMPTS, worker.get(AUTO_RESTART_MAX_ATTEMPTS, "")).strip()
        return cls(
            setting != "false", int(attempts) if attempts.isascii() and attempts.isdigit() else cls().max_attempts
        )


def why_of(error: Exception) -> str:
    """Return FAILED, or MISCONFIGURED if the plugin blames its configuration: a restart does not help then."""
    return MISCONFIGURED if isinstance(error, ConfigException) else FAILED


def pause_s(restarts: int) -> int:
    """Return the pause after this many restarts in a row: 10 s, doubled each time, at most ten minutes."""
    return min(LONGEST_S, FIRST_S << min(restarts, 16))


def in_a_row(placement: Placement, until_ms: int) -> int:
    """Return the restarts that still count at the given time: none after a stable run."""
    stable = placement.placed_ms and until_ms - placement.placed_ms >= STABLE_S * 1000
    return 0 if stable else placement.restarts


def next_restart_ms(policy: RestartPolicy, placement: Placement, status: TaskStatus) -> int | None:
    """Return the wall clock of the next automatic restart; None if there is none. status: of this placement."""
    if not policy.enabled or status.why != FAILED:
        return None
    restarts = in_a_row(placement, status.since_ms)
    if restarts >= policy.max_attempts:
        return None
    return max(status.since_ms, placement.placed_ms) + pause_s(restarts) * 1000


@dataclass(frozen=True, slots=True, order=True)
class LiveWorker:
    """A live worker. `slots`: how many tasks it can run at once; `format`: see `config_records.format`; `reserve`: how
    many more it can run, if no other worker has a slot for them.
    """

    worker: WorkerId
    incarnation: Incarnation
    slots: int
    mode: Mode = Mode.ENABLED
    format: int = 1
    reserve: int = 0

    @property
    def most(self) -> int:
        return self.slots + self.reserve


Place = tuple[WorkerId, Incarnation]


def assign(
    members: Sequence[LiveWorker],
    task_ids: Sequence[TaskId],
    current: Mapping[TaskId, Place],
    avoid: Mapping[TaskId, Place] | None = None,
) -> dict[TaskId, LiveWorker]:
    """Return where each wanted task should run. A task for which no slot is left is missing.

    avoid: where an attempt was lost; another worker with a free slot is preferred.

    Deterministic: the same input gives the same output on every machine.
    """
    return reassign(members, task_ids, current, avoid or {}, {})[0]


def reassign(
    members: Sequence[LiveWorker],
    task_ids: Sequence[TaskId],
    current: Mapping[TaskId, Place],
    avoid: Mapping[TaskId, Place],
    staying: Mapping[Place, Set[TaskId]],
) -> tuple[dict[TaskId, LiveWorker], list[TaskId]]:
    """As `assign`, but with many more tasks that stay where they are if there is room, by their places. Of those, only
    the ones that must move are in the result, so it takes the time of what moves. Returns the tasks without a slot as
    well.
    """
    by_key = {(member.worker, member.incarnation): member for member in sorted(members)}
    unassigned_tasks = [task for place, tasks in staying.items() if place not in by_key for task in tasks]
    preferences: dict[LiveWorker, list[TaskId]] = {member: [] for member in by_key.values()}
    for task in task_ids:
        member = by_key.get(current.get(task, (WorkerId(""), Incarnation(""))))
        (unassigned_tasks if member is None else preferences[member]).append(task)
    load: dict[LiveWorker, _Load] = {}
    for place, member in by_key.items():
        load[member] = _Load(staying.get(place, frozenset()), preferences[member])
        unassigned_tasks += load[member].cut(member.most)
    left = _fill(load, sorted(unassigned_tasks), {member: member.slots for member in load}, avoid)
    _level(load)
    left = _fill(load, left, {member: member.most for member in load}, avoid)
    return {task: member for member, tasks in load.items() for task in tasks.additions()}, list(left)


class _Load:
    """The tasks of a worker: first the ones that it has, in order, then the ones that it gets."""

    __slots__ = ("_first", "_gains", "_others", "_staying", "count")

    def __init__(self, staying: Set[TaskId], others: Sequence[TaskId]) -> None:
        self._staying = staying
        self._others = others
        self._first: list[TaskId] | None = None
        """The ones that it has. None until they are needed, since to sort all workers' tasks takes long."""
        self._gains: list[TaskId] = []
        self.count = len(staying) + len(others)

    def _sort(self) -> list[TaskId]:
        if self._first is None:
            self._first = sorted((*self._staying, *self._others))
        return self._first

    def cut(self, most: int) -> Sequence[TaskId]:
        """Remove the tasks beyond so many, and return them."""
        if self.count <= most:
            return ()
        first = self._sort()
        rest = first[most:]
        del first[most:]
        self.count = most
        return rest

    def append(self, task: TaskId) -> None:
        self._gains.append(task)
        self.count += 1

    def pop(self) -> TaskId:
        """Remove the last task, and return it."""
        self.count -= 1
        return self._gains.pop() if self._gains else self._sort().pop()

    def additions(self) -> Iterator[TaskId]:
        """Return its tasks without those that stay anyway."""
        if self._first is None:
            yield from self._others
        else:
            yield from (task for task in self._first if task not in self._staying)
        yield from self._gains


def _fill(
    load: Mapping[LiveWorker, _Load],
    unassigned_tasks: Sequence[TaskId],
    most: Mapping[LiveWorker, int],
    avoid: Mapping[TaskId, Place],
) -> Sequence[TaskId]:
    """Give the tasks to the least loaded workers; return those for which there is no room."""
    # A heap: to look at all members for each task would take their numbers multiplied.
    free = [(tasks.count, member) for member, tasks in load.items() if tasks.count < most[member]]
    heapify(free)
    for number, task in enumerate(unassigned_tasks):
        if not free:
            return unassigned_tasks[number:]
        count, member = heappop(free)
        if free and (member.worker, member.incarnation) == avoid.get(task):
            count, member = heapreplace(free, (count, member))
        load[member].append(task)
        if count + 1 < most[member]:
            heappush(free, (count + 1, member))
    return ()


def _level(load: Mapping[LiveWorker, _Load]) -> None:
    while True:
        free = [member for member in load if load[member].count < member.slots]
        if not free:
            return
        least = min(free, key=lambda member: (load[member].count, member))
        most = max(load, key=lambda member: (load[member].count, member))
        if load[most].count - load[least].count < 2:
            return
        load[least].append(load[most].pop())


REBALANCE_DELAY: Final = "scheduled.rebalance.max.delay.ms"


class PlacementStep(Enum):
    """What is due for a task."""

    FIRST = "it has no place in this generation yet"
    STAY = "it runs where it is"
    MOVE = "its worker is gone: the next attempt may run anywhere"
    FOLLOW = "its worker is back as another incarnation: the next attempt runs there"
    RETRY = "its attempt has ended: the next one, on another worker if possible"
    RESERVED = "its next place is reserved: nothing fences the attempt before, so that one must end first"
    START = "its place was reserved, and the attempt before has ended"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What a placement depends on, besides the task's own placement and status.

    live: the places of live workers. not_before: monotonic times before which a lost task is not placed again.
    held_until: how long to wait for the worker of a place to return. now: monotonic; now_ms: wall clock, for automatic
    restarts. settings: the worker's.
    """

    live: Set[Place]
    not_before: Mapping[TaskId, float]
    held_until: Mapping[Place, float]
    now: float
    now_ms: int
    settings: Mapping[str, str]

    def places_of(self, worker: WorkerId) -> list[Place]:
        """Return where a worker is now; empty while it is away."""
        return sorted(place for place in self.live if place[0] == worker)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that needs a place, or keeps its own.

    placement: its placement in this generation; status: its status, if that is about this attempt. prefer: where it
    stays if there is room; avoid: where it goes only if there is no room elsewhere.
    """

    task: TaskId
    generation: Generation
    next: PlacementStep
    placement: Placement | None = None
    status: TaskStatus | None = None
    prefer: Place | None = None
    avoid: Place | None = None

    @property
    def is_restart(self) -> bool:
        """Whether it is an automatic restart of a failed task."""
        return self.next is PlacementStep.RETRY and self.status is not None and self.status.state is State.FAILED


def place_of(placement: Placement) -> Place:
    return placement.worker, placement.incarnation


def status_of(status: StatusState, task: TaskId, placement: Placement | None) -> TaskStatus | None:
    """Return the task's status, if it is about this attempt."""
    task_status = status.tasks.get(task)
    if task_status is None or placement is None:
        return None
    same = (task_status.generation, task_status.attempt) == (placement.generation, placement.attempt)
    return task_status if same else None


def look_at(connector: ConnectorState, task: TaskId, status: StatusState, view: ClusterView) -> Candidate | None:
    """Return what is due for a task of the connector's newest generation; None if it is neither moved nor
    counted now.
    """
    assert connector.commit is not None
    generation = connector.commit.generation
    placement = connector.placements.get(task.task)
    if placement is None or placement.generation != generation:
        return Candidate(task, generation, PlacementStep.FIRST)
    task_status = status_of(status, task, placement)
    due = _due(connector, placement, task_status, status.tasks.get(task), task, view)
    if due is None:
        return None
    here = place_of(placement)
    prefer: Place | None = None
    if due in (PlacementStep.STAY, PlacementStep.RESERVED, PlacementStep.START):
        prefer = here
    elif due is PlacementStep.FOLLOW:
        prefer = view.places_of(placement.worker)[0]
    return Candidate(
        task, generation, due, placement, task_status, prefer, here if due is PlacementStep.RETRY else None
    )


def _due(
    connector: ConnectorState,
    placement: Placement,
    task_status: TaskStatus | None,
    newest: TaskStatus | None,
    task: TaskId,
    view: ClusterView,
) -> PlacementStep | None:
    if placement.after:
        return PlacementStep.START if _earlier_attempt_ended(placement, newest, view) else PlacementStep.RESERVED
    final_status = task_status if task_status is not None and task_status.ended else None
    if final_status is not None and final_status.why in (FAILED, MISCONFIGURED):
        return PlacementStep.RETRY if _restart_due(connector, placement, final_status, view) else None
    here = place_of(placement)
    is_held = here not in view.live and view.now < view.held_until.get(here, 0.0)
    # By default, wait only for an attempt that may still run; with a configured delay, wait for its worker.
    if is_held and (final_status is None or REBALANCE_DELAY in view.settings):
        return PlacementStep.FOLLOW if view.places_of(placement.worker) else None
    if final_status is not None:
        return PlacementStep.RETRY if view.now >= view.not_before.get(task, 0.0) else None
    return PlacementStep.STAY if here in view.live else PlacementStep.MOVE


def _restart_due(connector: ConnectorState, placement: Placement, task_status: TaskStatus, view: ClusterView) -> bool:
    if connector.target is not TargetState.RUNNING:
        return False
    due_ms = next_restart_ms(RestartPolicy.of(connector.config or {}, view.settings), placement, task_status)
    return due_ms is not None and view.now_ms >= due_ms


def _earlier_attempt_ended(placement: Placement, newest: TaskStatus | None, view: ClusterView) -> bool:
    """Return whether the attempt before `placement` has ended, as far as can be known.

    Its status says so, or its worker has left and the wait for it is over. An attempt that is moved has reported
    before, and its worker reports an end that the attempt cannot report itself.
    """
    if newest is None or (newest.generation, newest.attempt) != (placement.generation, placement.after):
        return True
    place = (newest.worker, newest.incarnation)
    return newest.ended or (place not in view.live and view.now >= view.held_until.get(place, 0.0))


def are_settled(
    candidates: Iterable[Candidate], members: Sequence[LiveWorker], staying: Mapping[Place, Set[TaskId]] | None = None
) -> bool:
    """Return whether every task stays where it is: then `assign` would change nothing, and takes ten times as long.

    staying: see `reassign`.
    """
    counts = Counter({place: len(tasks) for place, tasks in (staying or {}).items() if tasks})
    for one in candidates:
        if one.next is not PlacementStep.STAY or one.prefer is None:
            return False
        counts[one.prefer] += 1
    loads = [(counts.pop((member.worker, member.incarnation), 0), member) for member in members]
    if counts or any(load > member.most for load, member in loads):
        return False
    free = [load for load, member in loads if load < member.slots]
    return not free or max(load for load, _ in loads) - min(free) < 2


def next_record(candidate: Candidate, member: LiveWorker, now_ms: int) -> PlacementRecord | None:
    """Return the record that places the task on its assigned worker; None if nothing changes."""
    old = candidate.placement
    attempt, after = 1, 0
    if old is not None:
        here = place_of(old) == (member.worker, member.incarnation)
        attempt = old.attempt + 1
        match candidate.next:
            case PlacementStep.STAY | PlacementStep.RESERVED if here:
                return None
            case PlacementStep.START if here:
                attempt = old.attempt
            case PlacementStep.RESERVED:
                after = old.after
            case PlacementStep.STAY if old.mode is not Mode.ENABLED:
                if not _runs(candidate.status):
                    return None  # it is starting: it is moved once it can report its end
                after = old.attempt
    return PlacementRecord(
        candidate.task,
        member.worker,
        member.incarnation,
        attempt,
        candidate.generation,
        _restarts(candidate, now_ms),
        placed_ms=now_ms,
        mode=member.mode,
        after=after,
    )


def _runs(task_status: TaskStatus | None) -> bool:
    return task_status is not None and not task_status.ended and task_status.state in (State.RUNNING, State.PAUSED)


def _restarts(candidate: Candidate, now_ms: int) -> int:
    """Return the restart count of the next attempt: unchanged if only its worker was lost, one more for a restart."""
    if candidate.placement is None:
        return 0
    if candidate.is_restart and candidate.status is not None:
        return in_a_row(candidate.placement, candidate.status.since_ms) + 1
    return in_a_row(candidate.placement, now_ms)
