"""Fences transactional ids by raw InitProducerId requests, all in parallel (KIP-618, "Admin API to fence out").

A short-lived producer for each id takes ten times as long. The request has no producer id and no epoch, so the
coordinator bumps the epoch of the id's holder and aborts its open transaction before it responds.
"""

import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    TransactionalIdAuthorizationFailedError,
    for_code,
)
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import InitProducerIdRequest

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Fatal, FencingError, Retriable
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.kafka_python_client import PythonClient

_IN_FLIGHT = 10_000  # requests on one connection; the others are sent in the next round
# Coordinator loading, not available, moved; the old transaction has no markers yet; a commit came at the same moment.
_NOT_YET = {14, 15, 16, 51, -1}


_DENIED = (TransactionalIdAuthorizationFailedError, ClusterAuthorizationFailedError)


def _access_denied(what: str, name: str) -> Fatal:
    """Return the error of KIP-618, "Inability to fence out producers", with its remedy."""
    return Fatal(
        f"Fencing {what}: {name}. Grant the principal of the connector's admin client (admin.override., else the "
        "worker's) Write and Describe on TransactionalId <group.id>-<connector>- as a prefix; brokers before Kafka 2.8 "
        "also want IdempotentWrite on the Cluster",
        name,
    )


_NOT_YET_NAMES = {for_code(code).__name__ for code in _NOT_YET}


@dataclass(frozen=True, slots=True)
class FencedProducer:
    """An id whose former holder can no longer commit: the new producer id and epoch."""

    transactional_id: str
    producer_id: int
    epoch: int


class Fencer:
    """Fences ids on one cluster, with one principal. Use it as a context manager."""

    def __init__(self, connection: Connection, patience_s: float = 30.0) -> None:
        """patience_s: how long to wait for the first response of any broker."""
        try:
            self._admin = PythonClient(
                **connection.kafka_python(),
                max_in_flight_requests_per_connection=_IN_FLIGHT,
                bootstrap_timeout_ms=int(patience_s * 1000),
            )
        except KafkaError as error:
            raise Retriable(f"No broker of {connection.bootstrap} answers: {error}. It is tried again") from error
        except (OSError, ValueError) as error:  # for example, a missing certificate file or an invalid address
            raise Fatal(f"The settings for {connection.bootstrap} cannot be used: {error}") from error

    def __enter__(self) -> "Fencer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._admin.close()

    def ids(self, prefix: str) -> list[str]:
        """Return the transactional ids with this prefix that the coordinators still know (`ListTransactions`)."""
        try:
            transactions = self._admin.list_transactions()
        except TransactionalIdAuthorizationFailedError as error:
            raise _access_denied("transactional ids", type(error).__name__) from error
        except KafkaError as error:
            raise Retriable(f"Listing transactions: {error}. It is tried again", type(error).__name__) from error
        ids = {each.transactional_id for rows in transactions.values() for each in rows}
        return sorted(each for each in ids if each.startswith(prefix))

    def fence(self, transactional_ids: Sequence[str], deadline: Deadline) -> list[FencedProducer]:
        """Fence every id, or raise the first error. Fencing is idempotent: repeat the whole call after an error."""
        producers: dict[str, FencedProducer] = {}
        left = list(dict.fromkeys(transactional_ids))
        while left:
            try:
                answers = self._run(self._round(left))
            except Retriable as error:
                if error.code not in _NOT_YET_NAMES or deadline.expired:
                    raise
                time.sleep(deadline.slice(0.1))  # the first id of a cluster makes the broker create its topic
                continue
            trouble: FencingError | None = None
            for transactional_id, answer in answers.items():
                if isinstance(answer, FencedProducer):
                    producers[transactional_id] = answer
                elif isinstance(answer, Fatal):
                    raise answer
                else:
                    trouble = answer
            left = [transactional_id for transactional_id in left if transactional_id not in producers]
            if trouble is not None:
                if deadline.expired:
                    raise trouble
                self._admin.forget_coordinators()
                time.sleep(deadline.slice(0.02))
        return [producers[transactional_id] for transactional_id in dict.fromkeys(transactional_ids)]

    def _run(self, work: Coroutine[Any, Any, dict[str, FencedProducer | FencingError]]) -> dict[str, Any]:
        async def call() -> dict[str, FencedProducer | FencingError]:
            return await work

        try:
            return dict(self._admin.run(call))
        except TransactionalIdAuthorizationFailedError as error:
            raise _access_denied("these transactional ids", type(error).__name__) from error
        except KafkaError as error:
            raise Retriable(f"Fencing: {error}. It is tried again", type(error).__name__) from error

    async def _round(self, ids: Sequence[str]) -> dict[str, FencedProducer | FencingError]:
        coordinators = await self._admin.ask_coordinators(list(ids), key_type=CoordinatorType.TRANSACTION)
        futures = [
            (
                transactional_id,
                self._admin.send(
                    InitProducerIdRequest(
                        transactional_id=transactional_id,
                        transaction_timeout_ms=60_000,
                        producer_id=-1,
                        producer_epoch=-1,
                    ),
                    node_id=node,
                ),
            )
            for transactional_id, node in coordinators.items()
        ]
        answers: dict[str, FencedProducer | FencingError] = {}
        for transactional_id, future in futures:
            try:
                response = await future
            except KafkaError as error:
                answers[transactional_id] = Retriable(f"Fencing {transactional_id}: {error}")
                continue
            if response.error_code == 0:
                answers[transactional_id] = FencedProducer(
                    transactional_id, response.producer_id, response.producer_epoch
                )
            else:
                kind = for_code(response.error_code)
                name = kind.__name__
                if kind in _DENIED:
                    answers[transactional_id] = _access_denied(transactional_id, name)
                    continue
                text = f"Fencing {transactional_id}: {name}"
                retriable = response.error_code in _NOT_YET
                answers[transactional_id] = Retriable(text, name) if retriable else Fatal(text, name)
        return answers
