"""Checks what the brokers that the tasks write to support and permit."""

from collections.abc import Iterator
from typing import Final

from ringfence.connectors.java_settings import SNAPSHOT_TRANSACTION_TIMEOUT_MS
from ringfence.engine.preflight.subject import Check, Result, Subject
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.offsets.stores import OffsetStores
from ringfence.fencing.transactions.messages import V2
from ringfence.fencing.transactions.state_machine import LEADERS_WAIT, SHORT_WAIT_MS

_PROTOCOL: Final = "transaction protocol"


def check_version(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    version = ".".join(str(part) for part in prober.version)
    if prober.exactly_once():
        yield Check("broker version", Result.OK, f"Kafka {version} or newer.")
    else:
        text = f"The broker is Kafka {version}; exactly-once needs 2.5."
        yield Check("broker version", Result.FAILED, text, "Upgrade the brokers.", decides=subject.transactional)
    if (old := check_idempotence(prober.version)) is not None:
        yield old


def check_transactions_v2(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    if subject.transactional:
        level = prober.feature("transaction.version")
        yield check_protocol(level, prober.broker_setting(LEADERS_WAIT) if level >= V2 else None)


def check_protocol(level: int, wait: str | None) -> Check:
    """Say which protocol transactions use. level: of transaction.version; wait: how long a partition leader waits for
    the markers of the last transaction, in ms; None if it is not known.
    """
    if level < V2:
        text = (
            f"transaction.version is {level}: one epoch serves many transactions, so the producer takes a new one "
            "after each abort, and after each transaction in which a request had no answer."
        )
        remedy = (
            "With Kafka 4, set transaction.version to 2 (kafka-features.sh upgrade): brokers refuse late requests then."
        )
        return Check(_PROTOCOL, Result.OK, text, remedy)
    text = f"Transactions v2 (transaction.version {level}): late requests are refused by the broker."
    if wait is None or not wait.isdecimal() or int(wait) <= SHORT_WAIT_MS:
        return Check(_PROTOCOL, Result.OK, text)
    text += (
        f" {LEADERS_WAIT} is {wait}: for so many ms a partition leader keeps a transaction waiting that follows the "
        "last one too closely. Above 50 transactions a second, a task avoids it by one more request for each."
    )
    return Check(_PROTOCOL, Result.OK, text, f"For many small transactions, set {LEADERS_WAIT}=1 on the brokers.")


def check_transaction_timeout(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    if subject.transactional:
        limit = prober.broker_setting("transaction.max.timeout.ms")
        yield check_timeout(limit, subject.timeout_ms, subject.boundaries.snapshot_ms)


def check_timeout(limit: str | None, timeout_ms: int, snapshot_ms: int = 0) -> Check:
    """Check the transaction timeout. limit: the broker's; snapshot_ms: how long an initial snapshot's transaction may
    take, 0 if it has none.
    """
    name, key = "transaction timeout", "producer.override.transaction.timeout.ms"
    of_a_snapshot = snapshot_ms == timeout_ms
    key = SNAPSHOT_TRANSACTION_TIMEOUT_MS if of_a_snapshot else key
    if limit is None:
        text = "The worker's principal may not ask for the broker's transaction.max.timeout.ms."
        return Check(name, Result.UNKNOWN, text, "Grant it DescribeConfigs on the cluster.", key)
    if timeout_ms <= int(limit):
        return Check(name, Result.OK, f"{timeout_ms} ms; the broker allows up to {limit} ms.", key=key)
    if of_a_snapshot:
        text = f"The snapshot's transaction may take {timeout_ms} ms; the broker allows {limit} ms."
        remedy = f"Lower {key} to what the snapshot takes, or raise the broker's transaction.max.timeout.ms."
        return Check(name, Result.FAILED, text, remedy, key, decides=True)
    text = f"The task needs {timeout_ms} ms (at least three commit intervals); the broker allows {limit} ms."
    remedy = f"Shorten the interval, lower {key}, or raise the broker's transaction.max.timeout.ms."
    return Check(name, Result.FAILED, text, remedy, key, decides=True)


def check_idempotence(version: tuple[int, ...]) -> Check | None:
    """Return the finding for IdempotentWrite, which brokers from 2.8 on do not require (KIP-679). It cannot be probed
    without side effects.
    """
    if version >= (2, 8):
        return None
    text = "Brokers before Kafka 2.8 require IdempotentWrite on the cluster from every producer."
    remedy = "Grant IdempotentWrite on the Cluster to the worker's principal and to the producer's."
    return Check("IdempotentWrite Cluster", Result.UNKNOWN, text, remedy)
