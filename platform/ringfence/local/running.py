"""A Ringfence that is ready, for a job that `ringfence up` runs beside it."""

from collections.abc import Callable
from dataclasses import dataclass

from ringfence.local.door import Door
from ringfence.local.instance import Instance


@dataclass(frozen=True, slots=True)
class Running:
    """What a job needs to know about a Ringfence that is ready."""

    url: str
    bootstrap: str
    instance: Instance
    door: Door


Job = Callable[[Running], int | None]
"""Work for when everything is ready. An exit code stops everything; None leaves it running."""
