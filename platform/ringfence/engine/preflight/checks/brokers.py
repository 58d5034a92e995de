"""Checks what the brokers that the tasks write to support and permit."""

from collections.abc import Iterator

from ringfence.engine.preflight import findings
from ringfence.engine.preflight.check import Check, Result
from ringfence.engine.preflight.subject import Asker
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.offsets.stores import OffsetStores


def check_version(prober: Prober, asker: Asker, _stores: OffsetStores) -> Iterator[Check]:
    version = ".".join(str(part) for part in prober.version)
    if prober.exactly_once():
        yield Check("broker version", Result.OK, f"Kafka {version} or newer.")
    else:
        text = f"The broker is Kafka {version}; exactly-once needs 2.5."
        yield Check("broker version", Result.FAILED, text, "Upgrade the brokers.", decides=asker.transactional)
    if (old := findings.idempotence(prober.version)) is not None:
        yield old


def check_transaction_timeout(prober: Prober, asker: Asker, _stores: OffsetStores) -> Iterator[Check]:
    if asker.transactional:
        limit = prober.broker_setting("transaction.max.timeout.ms")
        yield findings.timeout(limit, asker.timeout_ms, asker.boundaries.snapshot_ms)
