"""Assignment: which worker runs which task. A pure function of the members and of where the tasks are now.

Spread tasks evenly, move as few as possible, respect slots. A task stays where it is while that worker is alive, unless
that worker has at least two tasks more than another (KIP-415's aim, without its delay).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringfence.fencing.ids import Incarnation, TaskId, WorkerId
from ringfence.fencing.modes import Mode


@dataclass(frozen=True, slots=True, order=True)
class LiveWorker:
    """A live worker. `slots`: how many tasks it can run at once; `format`: see `config_records.format`."""

    worker: WorkerId
    incarnation: Incarnation
    slots: int
    mode: Mode = Mode.ENABLED
    format: int = 1


def assign(
    members: Sequence[LiveWorker],
    task_ids: Sequence[TaskId],
    current: Mapping[TaskId, tuple[WorkerId, Incarnation]],
    avoid: Mapping[TaskId, tuple[WorkerId, Incarnation]] | None = None,
) -> dict[TaskId, LiveWorker]:
    """Return where each wanted task should run. A task for which no slot is left is missing.

    avoid: where an attempt was lost; another worker with a free slot is preferred.

    Deterministic: the same input gives the same output on every machine.
    """
    if not members:
        return {}
    by_key = {(member.worker, member.incarnation): member for member in sorted(members)}
    load: dict[LiveWorker, list[TaskId]] = {member: [] for member in by_key.values()}
    unassigned_tasks: list[TaskId] = []
    for task in sorted(task_ids):
        member = by_key.get(current.get(task, (WorkerId(""), Incarnation(""))))
        if member is not None and len(load[member]) < member.slots:
            load[member].append(task)
        else:
            unassigned_tasks.append(task)
    for task in unassigned_tasks:
        free = [member for member in load if len(load[member]) < member.slots]
        if not free:
            break
        lost_on = (avoid or {}).get(task)
        load[min(free, key=lambda one: ((one.worker, one.incarnation) == lost_on, len(load[one]), one))].append(task)
    _level(load)
    return {task: member for member, tasks in load.items() for task in tasks}


def _level(load: dict[LiveWorker, list[TaskId]]) -> None:
    while True:
        free = [member for member in load if len(load[member]) < member.slots]
        if not free:
            return
        least = min(free, key=lambda member: (len(load[member]), member))
        most = max(load, key=lambda member: (len(load[member]), member))
        if len(load[most]) - len(load[least]) < 2:
            return
        load[least].append(load[most].pop())
