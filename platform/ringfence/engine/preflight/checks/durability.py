"""Checks how many replicas have a record before it counts as written, and which of them may become the leader."""

from collections.abc import Iterator

from ringfence.connectors.common_settings import EXACTLY_ONCE_SUPPORT
from ringfence.connectors.sdk.topic_durability import MIN_ISR, UNCLEAN_ELECTION
from ringfence.engine.preflight.other_workers import requires_exactly_once
from ringfence.engine.preflight.subject import Check, Result, Subject
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.offsets.stores import OffsetStores


def check_target(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    if subject.topic:
        yield _check(prober, subject, subject.topic)


def check_worker_topics(prober: Prober, subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    yield _check(prober, subject, subject.worker.config_topic)
    yield _check(prober, subject, stores.worker.name)


def check_own_offsets_topic(prober: Prober, subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    """Check the connector's own offsets topic, which is created before the first task starts."""
    if stores.own is not None:
        yield _check(prober, subject, stores.own.name)


def _check(prober: Prober, subject: Subject, topic: str) -> Check:
    rights = prober.topic(topic)
    if rights.exists is False:
        text = f"{topic} does not exist yet. If it is created here with three replicas, it gets {MIN_ISR}=2."
        return Check(f"durability of topic {topic}", Result.OK, text, key=EXACTLY_ONCE_SUPPORT)
    min_isr, unclean = (prober.topic_setting(topic, name) for name in (MIN_ISR, UNCLEAN_ELECTION))
    return check_durability(topic, rights.replicas, min_isr, unclean, required=requires_exactly_once(subject.config))


def check_durability(topic: str, replicas: int, min_isr: str | None, unclean: str | None, *, required: bool) -> Check:
    """Check whether an acknowledged commit in this topic survives the loss of one broker.

    min_isr, unclean: the topic's effective settings, None if they could not be read; replicas: 0 if unknown.
    """
    name, key = f"durability of topic {topic}", EXACTLY_ONCE_SUPPORT
    if replicas == 1:
        return Check(name, Result.OK, f"{topic} has one replica: it is only as durable as its one broker.", key=key)
    if unclean == "true":
        text = (
            f"{topic} has {UNCLEAN_ELECTION}=true: a replica that lags may lead, and committed records are then lost."
        )
        remedy = f"Set {UNCLEAN_ELECTION}=false on topic {topic}, or on the brokers."
        return Check(name, Result.FAILED, text, remedy, key, decides=required)
    if not replicas or min_isr is None or unclean is None:
        text = f"It is unknown whether {topic} keeps committed records when a broker is lost."
        return Check(name, Result.UNKNOWN, text, f"Grant DescribeConfigs and Describe on topic {topic}.", key)
    if int(min_isr) < 2:
        text = f"{topic} has {replicas} replicas and {MIN_ISR}={min_isr}: "
        text += "a commit may be acknowledged while only one broker has it, and is lost with that broker."
        more = "" if replicas > 2 else " (with a third replica, so that one broker may be down)"
        return Check(name, Result.FAILED, text, f"Set {MIN_ISR}=2 on topic {topic}{more}.", key, decides=required)
    return Check(name, Result.OK, f"{topic} has {replicas} replicas, {MIN_ISR}={min_isr}.", key=key)
