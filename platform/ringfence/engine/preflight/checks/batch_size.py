"""Checks that the topic takes batches as large as the producer makes them."""

from collections.abc import Iterator

from ringfence.engine.preflight.asker import Asker
from ringfence.engine.preflight.findings import Check, Result
from ringfence.fencing.kafka.client_settings import batch_bytes
from ringfence.fencing.kafka.probes import Prober
from ringfence.fencing.offsets.stores import OffsetStores

LIMIT = "max.message.bytes"
KEY = "producer.override.batch.size"


def check_target(prober: Prober, asker: Asker, _stores: OffsetStores) -> Iterator[Check]:
    """Compare the topic's limit, which counts whole batches, with the producer's `batch.size`."""
    if not asker.topic or prober.topic(asker.topic).exists is False:
        return
    limit = prober.topic_setting(asker.topic, LIMIT)
    yield judge(asker.topic, limit, batch_bytes(asker.worker.settings, asker.config))


def judge(topic: str, limit: str | None, size: int) -> Check:
    """Return the finding. limit: the topic's, in bytes; None if this principal may not read it."""
    name = f"batches for topic {topic}"
    if limit is None or not limit.isdecimal():
        return Check(name, Result.UNKNOWN, f"{LIMIT} of {topic} is not visible to this principal.", key=KEY)
    if int(limit) >= size:
        return Check(name, Result.OK, f"{topic} takes batches of up to {int(limit):,} bytes.", key=KEY)
    text = f"{topic} takes at most {int(limit):,} bytes at a time, and the producer may send batches of {size:,} bytes."
    remedy = f"Set {KEY}={limit} or less, or raise {LIMIT} of the topic: the broker refuses larger batches."
    return Check(name, Result.FAILED, text, remedy, key=KEY)
