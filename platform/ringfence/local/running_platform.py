"""A running Ringfence, for a job that `ringfence up` runs with it."""

from collections.abc import Callable
from dataclasses import dataclass

from ringfence.local.data_directory import DataDirectory
from ringfence.local.up_access import UpAccess


@dataclass(frozen=True, slots=True)
class Running:
    """What a job needs to know about a running Ringfence."""

    url: str
    bootstrap: str
    instance: DataDirectory
    door: UpAccess


Job = Callable[[Running], int | None]
"""A job to run when everything is ready. An exit code stops everything; None leaves it running."""
