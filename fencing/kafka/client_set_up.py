"""Sets librdkafka up before a fork, as the first client of a process does: its processes then share what that takes."""

import gc

from confluent_kafka import Consumer, Producer


def set_up_clients() -> None:
    """Let librdkafka and OpenSSL set themselves up, and keep nothing else: no thread, which a fork would not have."""
    nowhere = {"bootstrap.servers": "", "log_level": 0}
    Producer(nowhere)
    Consumer({**nowhere, "group.id": "none"}).close()
    gc.collect()  # the producer ends with its last reference
