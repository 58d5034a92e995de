"""How a producer is let go."""

import logging

from confluent_kafka import Producer

from fencing.errors import FencingError
from fencing.kafka.translation import kafka_errors


def drop(producer: Producer, log: logging.Logger) -> None:
    """Drop what is queued, and let the client go. Records in flight may still arrive."""
    try:
        with kafka_errors("closing the producer"):
            producer.purge()
            producer.flush(0)
    except FencingError as error:
        # A fatal error comes out of every call, this one too; whoever met it first has been told.
        log.debug("%s", error)
