"""Where a running task listens, for a source that is pushed to and not read."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Endpoint:
    """id: of this very listener, since a later one may have its port. secret: what both ends prove to know; it goes to
    web processes through the status topic and is shown nowhere.
    """

    id: str
    host: str
    port: int
    secret: str = field(repr=False)
