"""Hanging transactions of a producer's older epochs, which its coordinator does not know (invariant 13).

A coordinator that has answered InitProducerId has ended every transaction of the id that it knew. A transaction of the
same producer id that is still open with an older epoch hangs (KIP-664): a request arrived after its transaction had
ended, as can happen around a broker's crash. read_committed consumers would wait for it forever; worse, the marker of a
later commit of the same producer id would make its records visible. A marker on the partition ends it.

An attempt aborts its open transaction, and the `init` of the next one ends what could not be aborted. If none follows
(the task has failed, or waits for its automatic restart, or no worker has a slot for it), the transaction would stay
open until `transaction.timeout.ms`, and read_committed consumers would wait that long. So the leader fences the task's
transactional id.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.ids import TaskId
from ringfence.fencing.kafka.client_pool import ClientPool
from ringfence.fencing.kafka.open_transactions import Hanging, HangingProber, Key
from ringfence.fencing.leader.fence_targets import AdminAccess
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


log = logging.getLogger(__name__)

_clients = ClientPool(HangingProber)

Epochs = Mapping[int, int]
"""The newest epoch of each producer id, as InitProducerId has answered."""


@dataclass(frozen=True, slots=True)
class OlderEpochs:
    """What was found and ended. unseen: why some topics could not be checked, as a message; "" if all were."""

    hanging: Sequence[Hanging] = ()
    unseen: Sequence[str] = field(default_factory=tuple)


def end_leftovers(
    topics: Collection[str],
    epochs: Epochs,
    accesses: Sequence[AdminAccess],
    on_end: Callable[[Hanging], None] = lambda _: None,
) -> OlderEpochs:
    """End hanging transactions of older epochs of these producer ids on those of the topics that exist.

    accesses: the first with the right is used. on_end: called with each one ended. Raises `Retriable` if one could not
    be ended, or if no broker answers. Without the right to check, the caller continues, and `unseen` says so: a check
    that is not permitted cannot be a condition.
    """
    if not topics or not epochs:
        return OlderEpochs()
    endings: dict[Key, Hanging] = {}
    survivors: dict[Key, Hanging] = {}
    left = sorted(topics)
    troubles: list[FencingError] = []

    def end(prober: HangingProber) -> dict[str, Fatal]:
        transactions, denials = _look(prober, left, epochs)
        survivors.update({hanging.key: hanging for hanging in transactions})
        for hanging in transactions:
            prober.abort(hanging)
            endings[hanging.key] = survivors.pop(hanging.key)
            on_end(hanging)
            log.warning("Ended a transaction that its coordinator did not know of: %s", hanging.message)
        return denials

    for access in accesses:
        try:
            denials = _clients.call(access.connection, end)
        except FencingError as error:
            troubles.append(error)
            continue
        left, troubles = list(denials), list(denials.values())
        if not left:
            break
    for hanging in survivors.values():
        remedy = describe_manual_abort(hanging, accesses)
        raise Retriable(f"A transaction hangs on {hanging.message}, and cannot be ended: {troubles[-1]}. {remedy}")
    for trouble in troubles:
        if isinstance(trouble, Retriable):
            raise trouble
        log.warning("This producer could not be checked for hanging transactions: %s", trouble)
    return OlderEpochs(list(endings.values()), [str(trouble) for trouble in troubles])


def connect(accesses: Sequence[AdminAccess]) -> None:
    """Make the connection that the next `end_leftovers` uses first."""
    _clients.call(accesses[0].connection, lambda _prober: None)


def describe_manual_abort(one: Hanging, accesses: Sequence[AdminAccess]) -> str:
    """Return what an operator can do about it with Kafka's own tool."""
    where = accesses[0].connection.bootstrap
    return (
        f"By hand: kafka-transactions.sh --bootstrap-server {where} abort --topic {one.topic} --partition "
        f"{one.partition} --start-offset {one.start_offset}"
    )


def _look(prober: HangingProber, topics: Sequence[str], epochs: Epochs) -> tuple[list[Hanging], dict[str, Fatal]]:
    """Return what hangs on the topics that may be checked, and the others, with the broker's error."""
    try:
        return prober.leftovers(topics, epochs), {}
    except Fatal as error:
        if len(topics) == 1:
            return [], {topics[0]: error}
    transactions: list[Hanging] = []
    denials: dict[str, Fatal] = {}
    for topic in topics:
        more, more_denials = _look(prober, [topic], epochs)
        transactions += more
        denials |= more_denials
    return transactions, denials
