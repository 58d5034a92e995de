"""Ends transactions that other processes have written: the writer passes on id, producer id and epoch.

The coordinator identifies a transaction by these three, for any client. EndTxn may be repeated: until the id is
initialised again, the coordinator answers a repeated commit with the same epoch in the same way as the first.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafka.errors import KafkaError, for_code
from kafka.protocol.producer import EndTxnRequest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, Retriable
from ringfence.fencing.kafka.permission_probes import coordinator_request
from ringfence.fencing.kafka.transaction_descriptions import TransactionProber


@dataclass(frozen=True, slots=True, order=True)
class OpenTransaction:
    """A transaction that is flushed, but has not ended: any client with Write on the id can end it."""

    transactional_id: str
    producer_id: int
    epoch: int


_AWAY: Final = 15
_NOT_YET: Final = frozenset({14, _AWAY, 16, 51})  # loading, unavailable, moved; markers are not written yet
_END_VERSION: Final = 3
"""Newer ones are for producers whose epoch changes with each transaction (KIP-890). Those of a transaction that is
handed over do without it: its identity must not change before it has ended.
"""
_OVER: Final = frozenset({47, 48, 49, 90})  # the id has another epoch, state or producer now


class TransactionEnder(TransactionProber):
    """Ends them with one principal, which needs Write on the ids. Use it as a context manager."""

    def commit(self, transactions: Sequence[OpenTransaction], deadline: Deadline) -> set[str]:
        """Commit all of them. Return the ids whose transaction could no longer be committed.

        Such a transaction has timed out or was fenced, or it was committed before and the id was used again: its
        records show which. Raises `Retriable` if a coordinator does not answer in time: call it again.
        """
        left = {each.transactional_id: each for each in transactions}
        over: set[str] = set()
        while left:
            for name, code in self._end(list(left.values()), deadline).items():
                if code == 0 or code in _OVER:
                    del left[name]
                    over |= {name} if code else set()
                elif code not in _NOT_YET:
                    kind = for_code(code).__name__
                    raise Fatal(f"Committing {name}: {kind}. Grant Write on that TransactionalId, then restart", kind)
            if left and deadline.expired:
                raise Retriable(f"The coordinator of {next(iter(left))} does not end its transaction yet")
            if left:
                time.sleep(deadline.slice(0.02))
        return over

    def _end(self, transactions: Sequence[OpenTransaction], deadline: Deadline) -> dict[str, int]:
        """Return an error code for each; 15 if no coordinator answers."""
        by_id = {each.transactional_id: each for each in transactions}
        try:
            coordinators = self._run(self._all({name: coordinator_request(name) for name in by_id}))
            nodes = {name: answer.node_id for name, answer in coordinators.items() if answer and not answer.error_code}
            answers = self._run(self._all({name: _commit_request(by_id[name]) for name in nodes}, nodes))
        except Retriable:
            if deadline.expired:
                raise
            return dict.fromkeys(by_id, _AWAY)
        codes = {name: answer.error_code if answer else _AWAY for name, answer in coordinators.items()}
        return codes | {name: answer.error_code for name, answer in answers.items() if answer is not None}

    def open_ids(self) -> list[str]:
        """Return every transactional id with an open transaction that this principal may describe."""
        try:
            transactions = self._admin.list_transactions(state_filters=["Ongoing"])
        except KafkaError as error:
            raise self._trouble(error) from error
        return sorted(each.transactional_id for rows in transactions.values() for each in rows)


def _commit_request(transaction: OpenTransaction) -> EndTxnRequest:
    """Return the request that commits a transaction."""
    return EndTxnRequest(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        committed=True,
        max_version=_END_VERSION,
    )
