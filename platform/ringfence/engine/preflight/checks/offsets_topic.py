"""Checks how the offsets topics keep their records: compacted, and soon."""

from collections.abc import Iterator
from typing import Final

from ringfence.connectors.common_settings import OFFSETS_STORAGE_TOPIC
from ringfence.engine.preflight.subject import Check, Result, Subject
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.offsets.stores import COMPACTED_SOON, OffsetStores

_A_DAY_MS: Final = 24 * 3600 * 1000


def check_of_worker(prober: Prober, _subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    if stores.own is None:
        yield _check_compaction("worker", prober, stores.worker.name)
    yield from _check_segments(prober, stores.worker.name)


def check_own(prober: Prober, _subject: Subject, stores: OffsetStores) -> Iterator[Check]:
    if stores.own is not None:
        yield _check_compaction("admin", prober, stores.own.name)
        yield from _check_segments(prober, stores.own.name)


def _check_compaction(principal: str, prober: Prober, topic: str) -> Check:
    policy = prober.topic_setting(topic, "cleanup.policy")
    return check_compaction(principal, topic, policy, prober.topic(topic).exists if policy is None else True)


def _check_segments(prober: Prober, topic: str) -> Iterator[Check]:
    check = check_segments(topic, prober.topic_setting(topic, "segment.ms"))
    if check is not None:
        yield check


def check_compaction(principal: str, topic: str, policy: str | None, exists: bool | None = None) -> Check:
    """Check an offsets topic. policy: its cleanup.policy, None if it could not be read; exists: None if unknown."""
    name = "offsets topic compaction"
    if exists is False:
        text = f"{topic} does not exist yet: it will be created, compacted."
        return Check(name, Result.OK, text, key=OFFSETS_STORAGE_TOPIC)
    if policy is None:
        text = f"The {principal}'s principal may not read the settings of {topic}, or the topic does not exist."
        return Check(name, Result.UNKNOWN, text, f"Grant it DescribeConfigs on topic {topic}.", OFFSETS_STORAGE_TOPIC)
    if [part.strip() for part in policy.split(",")] == ["compact"]:
        return Check(name, Result.OK, f"{topic} is compacted.", key=OFFSETS_STORAGE_TOPIC)
    text = f"{topic} has cleanup.policy={policy}: source offsets would be deleted, and records read again."
    remedy = f"Set cleanup.policy=compact on {topic}."
    return Check(name, Result.FAILED, text, remedy, OFFSETS_STORAGE_TOPIC, decides=True)


def check_segments(topic: str, segment_ms: str | None) -> Check | None:
    """Check how soon an offsets topic is compacted. segment_ms: its segment.ms, None if it could not be read."""
    if segment_ms is None or int(segment_ms) <= _A_DAY_MS:
        return None
    days = int(segment_ms) / _A_DAY_MS
    text = f"{topic} has segment.ms={segment_ms}: its records may stay {days:g} days before they are compacted, "
    text += "and each worker reads all of it when it starts."
    changes = ", ".join(f"{name}={value}" for name, value in COMPACTED_SOON.items())
    return Check("offsets topic segments", Result.FAILED, text, f"Set {changes} on {topic}.", OFFSETS_STORAGE_TOPIC)
