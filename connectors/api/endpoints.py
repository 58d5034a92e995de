"""Where a running task listens, for a source that pushes its data."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Endpoint:
    """id: names this listener, since a later one may get its port. secret: both ends prove that they know it; it
    reaches the web processes through the status topic and is never shown.
    """

    id: str
    host: str
    port: int
    secret: str = field(repr=False)
