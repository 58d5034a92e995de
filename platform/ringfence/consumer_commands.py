"""Commands that read a topic like a consumer of exactly-once data: committed records only."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

COMMITTED: Final = "isolation.level=read_committed"


@dataclass(frozen=True, slots=True)
class ConsumerCommand:
    """text: can be pasted into a shell, and contains no secret."""

    tool: str
    text: str


def consumer_commands(bootstrap: str, topic: str, settings: Mapping[str, str] | None = None) -> list[ConsumerCommand]:
    """Return commands for kcat and Kafka's own consumer. settings: the client's. A login appears as a
    placeholder only.
    """
    secured = (settings or {}).get("security.protocol", "PLAINTEXT").upper() != "PLAINTEXT"
    kcat = ["kcat", "-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-X", COMMITTED]
    console = ["kafka-console-consumer.sh", "--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"]
    console += ["--isolation-level", "read_committed"]
    if secured:
        kcat += ["-F", "client.properties"]
        console += ["--consumer.config", "client.properties"]
    return [
        ConsumerCommand("kcat", shlex.join(kcat)),
        ConsumerCommand("kafka-console-consumer.sh", shlex.join(console)),
    ]
