"""A connector that moves between Kafka Connect and Ringfence."""

import sys

from benchmarks.connect import ConnectWorker
from tests.e2e.up import Up

SHARED = {
    "group.id": "moving",
    "exactly.once.source.support": "enabled",
    **{f"{kind}.storage.topic": f"moving-{kind}" for kind in ("config", "offset", "status")},
    **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


class Moved(ConnectWorker):
    """Kafka Connect on the topics and in the group of the Ringfence cluster."""

    def _settings(self) -> dict[str, str]:
        return {**super()._settings(), **SHARED}


class Ringfence(Up):
    """On a broker of somebody else."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "ringfence.cli", "up", "--data", str(self.data), "--http", self.http]
