"""Checks that the topic takes batches as large as the producer makes them."""

from collections.abc import Iterator

from ringfence.engine.preflight import findings
from ringfence.engine.preflight.check import Check
from ringfence.engine.preflight.subject import Asker
from ringfence.fencing.kafka.client_settings import batch_bytes
from ringfence.fencing.kafka.permission_probes import Prober
from ringfence.fencing.offsets.stores import OffsetStores


def check_target(prober: Prober, asker: Asker, _stores: OffsetStores) -> Iterator[Check]:
    """Compare the topic's limit, which counts whole batches, with the producer's `batch.size`."""
    if not asker.topic or prober.topic(asker.topic).exists is False:
        return
    limit = prober.topic_setting(asker.topic, findings.MOST_BYTES)
    yield findings.check_batch_size(asker.topic, limit, batch_bytes(asker.producer_settings))
