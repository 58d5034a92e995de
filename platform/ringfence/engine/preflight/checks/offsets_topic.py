"""Checks how the offsets topics keep their records: compacted, and soon."""

from collections.abc import Iterator

from ringfence.engine.preflight import findings
from ringfence.engine.preflight.check import Check
from ringfence.engine.preflight.subject import Asker
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.offsets.stores import OffsetStores


def check_of_worker(prober: Prober, _asker: Asker, stores: OffsetStores) -> Iterator[Check]:
    if stores.own is None:
        yield _check_compaction("worker", prober, stores.worker.name)
    yield from _check_segments(prober, stores.worker.name)


def check_own(prober: Prober, _asker: Asker, stores: OffsetStores) -> Iterator[Check]:
    if stores.own is not None:
        yield _check_compaction("admin", prober, stores.own.name)
        yield from _check_segments(prober, stores.own.name)


def _check_compaction(principal: str, prober: Prober, topic: str) -> Check:
    policy = prober.topic_setting(topic, "cleanup.policy")
    return findings.compaction(principal, topic, policy, prober.topic(topic).exists if policy is None else True)


def _check_segments(prober: Prober, topic: str) -> Iterator[Check]:
    check = findings.segments(topic, prober.topic_setting(topic, "segment.ms"))
    if check is not None:
        yield check
