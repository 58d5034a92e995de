"""Describes transactional ids as their coordinators know them: state, producer, age, partitions (KIP-664)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.errors import for_code
from kafka.protocol.admin import DescribeTransactionsRequest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Retriable
from ringfence.fencing.kafka.permission_probes import MOVING, Prober, coordinator_request

_UNKNOWN_ID: Final = 105
_OPEN: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id as its coordinator knows it. state: Kafka's name, "" for an unknown id; started_ms: the start
    of the open transaction, -1 for none; partitions: the (topic, partition) that it has written to.
    """

    transactional_id: str
    state: str = ""
    producer_id: int = -1
    epoch: int = -1
    timeout_ms: int = -1
    started_ms: int = -1
    partitions: Sequence[tuple[str, int]] = ()

    @property
    def open(self) -> bool:
        """Whether a transaction is open, or is ending."""
        return self.state in _OPEN


def _parse(description: Any) -> Transaction:
    return Transaction(
        description.transactional_id,
        description.transaction_state,
        description.producer_id,
        description.producer_epoch,
        description.transaction_timeout_ms,
        description.transaction_start_time_ms,
        tuple(sorted((topic.topic, partition) for topic in description.topics for partition in topic.partitions)),
    )


class TransactionProber(Prober):
    """A prober with one principal, which needs Describe on the ids."""

    def transactions(self, ids: Sequence[str], deadline: Deadline) -> list[Transaction]:
        """Describe these ids, in order. Raises `Fatal` if one may not be described, `Retriable` without an answer."""
        transactions: dict[str, Transaction] = {}
        left = list(dict.fromkeys(ids))
        while left:
            coordinators = self._run(self._all({each: coordinator_request(each) for each in left}))
            codes = {each: answer.error_code if answer else 15 for each, answer in coordinators.items()}
            nodes = {each: answer.node_id for each, answer in coordinators.items() if answer and not codes[each]}
            requests = {each: DescribeTransactionsRequest(transactional_ids=[each]) for each in nodes}
            for each, answer in self._run(self._all(requests, nodes)).items():
                if answer is None:
                    raise Fatal("The brokers cannot describe transactions: that takes Kafka 3.0 or newer")
                for description in answer.transaction_states:
                    codes[each] = description.error_code
                    if description.error_code == 0:
                        transactions[each] = _parse(description)
                    elif description.error_code == _UNKNOWN_ID:
                        transactions[each] = Transaction(each)
            left = [each for each in left if each not in transactions]
            for each in left:
                _check(each, codes[each])
            if left and deadline.expired:
                raise Retriable(f"The coordinator of {left[0]} does not answer. Ask again")
            if left:
                time.sleep(deadline.slice(0.1))  # on a new cluster, the coordinators' topic is still being created
        return [transactions[each] for each in ids]


def _check(id: str, code: int) -> None:
    """Raise `Fatal` for an error that a repeated request would get again."""
    if code not in MOVING:
        name = for_code(code).__name__
        raise Fatal(f"Describing {id}: {name}. Grant the admin client Describe on that TransactionalId", name)
