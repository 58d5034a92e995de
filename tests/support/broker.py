"""What the `broker` fixtures hand out."""

from dataclasses import dataclass
from pathlib import Path

from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker that a test shares with others: use names of your own, and leave it running."""

    bootstrap: str


def new_kafka(root: Path, **properties: str) -> EmbeddedKafka:
    """A broker that is not started yet, on free ports, with everything it writes under `root`.

    Properties are given with `_` for `.`: `new_kafka(path, transaction_max_timeout_ms="60000")`. Records that a test
    gives a time of years ago stay.
    """
    settings = {"log.retention.ms": "-1"} | {key.replace("_", "."): value for key, value in properties.items()}
    return EmbeddedKafka(root / "kafka", free_port(), root / "kafka.log", properties=settings, short_lived=True)
