"""Checks that the topic takes batches as large as the producer makes them."""

from collections.abc import Iterator
from typing import Final

from ringfence.engine.preflight.subject import Check, Result, Subject
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.offsets.stores import OffsetStores
from ringfence.fencing.transactions.settings import batch_bytes

MOST_BYTES: Final = "max.message.bytes"
BATCH_SIZE: Final = "producer.override.batch.size"


def check_target(prober: Prober, subject: Subject, _stores: OffsetStores) -> Iterator[Check]:
    """Compare the topic's limit, which counts whole batches, with the producer's `batch.size`."""
    if not subject.topic or prober.topic(subject.topic).exists is False:
        return
    limit = prober.topic_setting(subject.topic, MOST_BYTES)
    yield check_batch_size(subject.topic, limit, batch_bytes(subject.producer_settings))


def check_batch_size(topic: str, limit: str | None, size: int) -> Check:
    """Return the finding. limit: the topic's, in bytes; None if this principal may not read it."""
    name = f"batches for topic {topic}"
    if limit is None or not limit.isdecimal():
        return Check(name, Result.UNKNOWN, f"{MOST_BYTES} of {topic} is not visible to this principal.", key=BATCH_SIZE)
    if int(limit) >= size:
        return Check(name, Result.OK, f"{topic} takes batches of up to {int(limit):,} bytes.", key=BATCH_SIZE)
    text = f"{topic} takes at most {int(limit):,} bytes at a time, and the producer may send batches of {size:,} bytes."
    remedy = f"Set {BATCH_SIZE}={limit} or less, or raise {MOST_BYTES} of the topic: the broker refuses larger batches."
    return Check(name, Result.FAILED, text, remedy, key=BATCH_SIZE)
