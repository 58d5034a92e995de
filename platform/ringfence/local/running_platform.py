"""A running Ringfence, for a job that `ringfence up` runs with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ringfence.local.data_directory import DataDirectory
from ringfence.local.up_access import UpAccess

if TYPE_CHECKING:
    from ringfence.fencing.kafka.connection import Connection


@dataclass(frozen=True, slots=True)
class Running:
    """What a job needs to know about a running Ringfence. environment: of its processes."""

    url: str
    environment: Mapping[str, str] = field(repr=False)
    instance: DataDirectory
    door: UpAccess

    def connection(self, client_id: str) -> "Connection":
        """Return the connection to Kafka, with the workers' login."""
        from ringfence.worker_config import WorkerConfig

        return WorkerConfig.from_environment(self.environment).connection(client_id)


Job = Callable[[Running], int | None]
"""A job to run when everything is ready. An exit code stops everything; None leaves it running."""
