"""A running Ringfence, for a job that `ringfence up` runs with it."""

from collections.abc import Callable
from dataclasses import dataclass

from ringfence.local.door import Door
from ringfence.local.instance import Instance


@dataclass(frozen=True, slots=True)
class Running:
    """What a job needs to know about a running Ringfence."""

    url: str
    bootstrap: str
    instance: Instance
    door: Door


Job = Callable[[Running], int | None]
"""A job to run when everything is ready. An exit code stops everything; None leaves it running."""
