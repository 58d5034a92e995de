"""Where consumers find the topics, and the commands to read them."""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ringfence.consumer_commands import CLIENT_FILE, ConsumerCommand, consumer_commands
from ringfence.projection.models import ClusterInfo

_MOST_COMMANDS = 20


def consumption(topics: Sequence[str], settings: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the context of `parts/consumption.html`; {} if no worker has reported the brokers' address.

    settings: of the connector that writes the topics. It may write to another cluster.
    """
    cluster = ClusterInfo.objects.exclude(kafka_bootstrap="").first()
    if cluster is None:
        return {}
    overrides = settings or {}
    bootstrap = overrides.get("producer.override.bootstrap.servers", "").strip() or cluster.kafka_bootstrap
    protocol = overrides.get("producer.override.security.protocol") or cluster.kafka_protocol
    client = {"security.protocol": protocol}
    file = os.environ.get(CLIENT_FILE, "") if bootstrap == cluster.kafka_bootstrap else ""
    commands = []
    for name in topics[:_MOST_COMMANDS]:
        own = ConsumerCommand("ringfence", shlex.join(["ringfence", "topics", "tail", name]))
        here = [own] if bootstrap == cluster.kafka_bootstrap else []
        commands.append((name, [*here, *consumer_commands(bootstrap, name, client, file)]))
    return {"bootstrap": bootstrap, "protocol": protocol, "commands": commands, "client_file": file}
