"""Three brokers on this machine: one that is the controller, too, and two that are brokers only."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port


def three_brokers(root: Path, **properties: str) -> list[EmbeddedKafka]:
    """Not started yet; start the first one first. Properties as in `new_kafka`, for all three."""
    settings = {key.replace("_", "."): value for key, value in properties.items()}
    controller, cluster = free_port(), "A" * 22
    brokers = []
    for number in (1, 2, 3):
        port, data = free_port(), root / f"kafka-{number}"
        data.mkdir(parents=True)
        (data / "identity.json").write_text(json.dumps({"cluster_id": cluster, "controller_port": str(controller)}))
        own = {"node.id": str(number), "controller.quorum.voters": f"1@127.0.0.1:{controller}", **settings}
        if number > 1:
            own |= {"process.roles": "broker", "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        log = root / f"kafka-{number}.log"
        brokers.append(EmbeddedKafka(data, port, log, properties=own, short_lived=True))
    return brokers


@contextmanager
def running(brokers: list[EmbeddedKafka]) -> Iterator[list[EmbeddedKafka]]:
    """Started together, as a quorum needs it; killed at the end."""
    try:
        for each in brokers:
            each.launch()
        for each in brokers:
            each.wait_ready(120)
        yield brokers
    finally:
        for each in brokers:
            each.kill()
