"""A heartbeat of a worker, and how old it may be. Pure."""

from dataclasses import dataclass
from typing import Final

SILENT_S: Final = 10.0
"""Seconds. A worker writes every two seconds: one that is silent for longer than this is frozen, dead, or cut off."""

FORGOTTEN_S: Final = 600.0
"""Seconds. While other workers live, a silent worker is reported for this long. By then its tasks have moved."""


def is_recent(age_s: float) -> bool:
    """A time in the future is not recent, either: it was written before the database's clock was set back, and is
    meaningless now. A live worker writes again within seconds.
    """
    return -SILENT_S <= age_s <= SILENT_S


@dataclass(frozen=True, slots=True)
class WorkerHeartbeat:
    """A worker's heartbeat. age_s: since it was written; led_age_s: since its last one as the leader, if any."""

    worker: str
    incarnation: str
    age_s: float
    began_age_s: float
    at_ms: int
    led_age_s: float | None = None
    kafka_error: str = ""
    redis_error: str = ""
    ended: bool = False
    projection_error: str = ""

    @property
    def live(self) -> bool:
        return not self.ended and is_recent(self.age_s)

    @property
    def leads(self) -> bool:
        return self.live and self.led_age_s is not None and is_recent(self.led_age_s)
