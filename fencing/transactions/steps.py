"""The small parts of a transactional producer's state machine. Pure."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ringfence.fencing.backoff import Backoff
from ringfence.fencing.transactions.messages import Request
from ringfence.fencing.transactions.partition_queue import MOST_IN_FLIGHT

PASSING: Final = Backoff(0.001, 0.2)
"""After most refusals, which are over in a moment: markers are missing, or a leader is being elected."""
UNREACHED: Final = Backoff(0.02, 1.0)
"""For brokers that do not answer at all."""


class Phase(Enum):
    """Where the producer stands."""

    NEW = auto()
    """`initialise` was not called, or has no answer yet."""
    READY = auto()
    """No transaction is open."""
    OPEN = auto()
    COMMITTING = auto()
    ABORTING = auto()
    OVER = auto()
    """`error` says why. Only another producer can go on."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request for a broker, None for any. number: what becomes of it is told with this."""

    number: int
    node: int | None
    request: Request


@dataclass(frozen=True, slots=True)
class Limits:
    """delivery_s: how long a batch may take; request_ms: what brokers may take for one Produce request; request_bytes:
    of batches in one request, which always has one; in_flight: Produce requests on one connection; retries: of one
    batch, None for any number; metadata_s: after which topics are looked up again; passing, unreached: pauses before a
    request that was refused, or had no answer, is sent again.
    """

    delivery_s: float = 120.0
    request_ms: int = 30_000
    request_bytes: int = 1024 * 1024
    in_flight: int = MOST_IN_FLIGHT
    retries: int | None = None
    metadata_s: float = 300.0
    passing: Backoff = PASSING
    unreached: Backoff = UNREACHED


class Step:
    """A request of which one at a time is on its way, and which is repeated after failures."""

    def __init__(self) -> None:
        self.under_way = False
        self.failures = 0
        self.not_before = 0.0
        self.code = 0
        """Of the last refusal; 0 if there was no answer."""

    def ready(self, now: float) -> bool:
        return not self.under_way and now >= self.not_before

    def again(self, now: float, backoff: Backoff = PASSING, code: int = 0) -> None:
        self.code = code
        self.under_way = False
        self.failures += 1
        self.not_before = now + backoff.pause(self.failures)

    def reset(self) -> None:
        self.under_way = False
        self.failures = 0
        self.not_before = 0.0
