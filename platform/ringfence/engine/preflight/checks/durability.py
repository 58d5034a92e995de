"""Checks how many replicas have a record before it counts as written, and which of them may become the leader."""

from collections.abc import Iterator

from ringfence.connectors.delivery_settings import EXACTLY_ONCE_SUPPORT
from ringfence.connectors.topic_durability import MIN_ISR, UNCLEAN_ELECTION
from ringfence.engine.preflight import findings
from ringfence.engine.preflight.check import Check, Result
from ringfence.engine.preflight.subject import Asker
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.offsets.stores import OffsetStores


def check_target(prober: Prober, asker: Asker, _stores: OffsetStores) -> Iterator[Check]:
    if asker.topic:
        yield _check(prober, asker, asker.topic)


def check_worker_topics(prober: Prober, asker: Asker, stores: OffsetStores) -> Iterator[Check]:
    yield _check(prober, asker, asker.worker.config_topic)
    yield _check(prober, asker, stores.worker.name)


def check_own_offsets_topic(prober: Prober, asker: Asker, stores: OffsetStores) -> Iterator[Check]:
    """Check the connector's own offsets topic, which is created before the first task starts."""
    if stores.own is not None:
        yield _check(prober, asker, stores.own.name)


def _check(prober: Prober, asker: Asker, topic: str) -> Check:
    rights = prober.topic(topic)
    if rights.exists is False:
        text = f"{topic} does not exist yet. If it is created here with three replicas, it gets {MIN_ISR}=2."
        return Check(f"durability of topic {topic}", Result.OK, text, key=EXACTLY_ONCE_SUPPORT)
    min_isr, unclean = (prober.topic_setting(topic, name) for name in (MIN_ISR, UNCLEAN_ELECTION))
    return findings.durability(topic, rights.replicas, min_isr, unclean, required=findings.insists(asker.config))
