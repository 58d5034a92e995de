"""Open transactions that nothing else will end: of tasks whose newest attempt has ended, without a successor yet. Pure.

An attempt aborts its open transaction, and the `init` of the next one ends what could not be aborted. If none follows
(the task has failed, or waits for its automatic restart, or no worker has a slot for it), the transaction would stay
open until `transaction.timeout.ms`, and read_committed consumers would wait that long. So the leader fences the task's
transactional id.
"""

from collections.abc import Iterator, Set

from ringfence.fencing.ids import TaskId
from ringfence.fencing.leader.next_placement import Place, status_of
from ringfence.fencing.modes import Mode
from ringfence.fencing.topics.cluster_state import ClusterState
from ringfence.fencing.topics.status import StatusState, TaskStatus


def find_abandoned(state: ClusterState, status: StatusState, live: Set[Place]) -> Iterator[TaskStatus]:
    """Return the last statuses of attempts that left, or may have left, a transaction open.

    live: the places of live workers. Connectors with a pending round are left out: the round fences these ids, too.
    """
    for connector in state.existing():
        if connector.round_pending:
            continue
        for number, placement in connector.placements.items():
            last = status_of(status, TaskId(connector.name, number), placement)
            if last is None or placement.mode is not Mode.ENABLED or placement.generation != connector.generation:
                continue
            killed = last.at_work and (placement.worker, placement.incarnation) not in live
            if killed or (last.ended and last.left_open):
                yield last
