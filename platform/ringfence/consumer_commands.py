"""Commands that read a topic like a consumer of exactly-once data: committed records only."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

COMMITTED: Final = "isolation.level=read_committed"
CLIENT_FILE: Final = "RINGFENCE_KAFKA_CLIENT_FILE"
"""The variable with the path of the properties file that logs Java clients of this machine in to the workers' Kafka."""
KCAT_FILE: Final = "kcat.conf"
"""Beside it, the same for kcat, which reads librdkafka's settings."""


@dataclass(frozen=True, slots=True)
class ConsumerCommand:
    """text: can be pasted into a shell, and contains no secret."""

    tool: str
    text: str


def consumer_commands(
    bootstrap: str, topic: str, settings: Mapping[str, str] | None = None, client_file: str = ""
) -> list[ConsumerCommand]:
    """Return commands for kcat and Kafka's own consumer. settings: the client's. A login appears only as the name of
    a file: client_file, which has `KCAT_FILE` beside it, or a placeholder.
    """
    secured = (settings or {}).get("security.protocol", "PLAINTEXT").upper() != "PLAINTEXT"
    kcat = ["kcat", "-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-X", COMMITTED]
    console = ["kafka-console-consumer.sh", "--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"]
    console += ["--isolation-level", "read_committed"]
    if secured:
        kcat += ["-F", str(Path(client_file).with_name(KCAT_FILE)) if client_file else "client.properties"]
        console += ["--consumer.config", client_file or "client.properties"]
    return [
        ConsumerCommand("kcat", shlex.join(kcat)),
        ConsumerCommand("kafka-console-consumer.sh", shlex.join(console)),
    ]
