"""Several brokers on this machine, as one cluster."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ringfence.local.kafka import EmbeddedKafka
from ringfence.local.ports import free_port, free_ports
from tests.support.broker import format_storage

REPLICATED: Final = {
    "default_replication_factor": "3",
    "min_insync_replicas": "2",
    "offsets_topic_replication_factor": "3",
    "transaction_state_log_replication_factor": "3",
    "transaction_state_log_min_isr": "2",
    "share_coordinator_state_topic_replication_factor": "3",
    "share_coordinator_state_topic_min_isr": "2",
}
"""Properties with which two of three brokers are enough for every write, as in docker-compose.yml."""
_CLUSTER: Final = "A" * 22


def three_brokers(root: Path, controllers: int = 1, /, **properties: str) -> list[EmbeddedKafka]:
    """Not started yet. controllers: how many are controllers, too; start the first one first where only that one is.

    Properties as in `new_kafka`, for all three.
    """
    ports = free_ports(3 + controllers)
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(ports[3:], 1))
    settings = {"controller.quorum.voters": voters, **{key.replace("_", "."): each for key, each in properties.items()}}
    own = [ports[2 + number] if number <= controllers else ports[3] for number in (1, 2, 3)]
    return [member(root, number, ports[number - 1], own[number - 1], settings) for number in (1, 2, 3)]


def more_brokers(root: Path, brokers: Sequence[EmbeddedKafka], count: int) -> list[EmbeddedKafka]:
    """Brokers that join these, with the next numbers. They are no controllers."""
    own = ("node.id", "process.roles", "listeners")
    settings = {key: value for key, value in brokers[0].properties.items() if key not in own}
    controller = int(json.loads((brokers[0].data / "identity.json").read_text())["controller_port"])
    numbers = range(len(brokers) + 1, len(brokers) + 1 + count)
    return [member(root, number, free_port(), controller, settings) for number in numbers]


def member(root: Path, number: int, port: int, controller: int, settings: Mapping[str, str]) -> EmbeddedKafka:
    """The broker of this number, in the cluster of all members. controller: its port, or that of another broker.

    settings: with the voters of the quorum; a broker that is none of them is no controller.
    """
    data = root / f"kafka-{number}"
    format_storage(data, {"cluster_id": _CLUSTER, "controller_port": str(controller)}, str(number))
    own = {**settings, "node.id": str(number)}
    if f"{number}@127.0.0.1:{controller}" not in settings["controller.quorum.voters"].split(","):
        own |= {"process.roles": "broker", "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    return EmbeddedKafka(data, port, root / f"kafka-{number}.log", properties=own, short_lived=True)


@contextmanager
def running(brokers: list[EmbeddedKafka]) -> Iterator[list[EmbeddedKafka]]:
    """Started together, as a quorum needs it; killed at the end, with those that were added."""
    try:
        for each in brokers:
            each.launch()
        for each in brokers:
            each.wait_ready(120)
        yield brokers
    finally:
        for each in brokers:
            each.kill()
