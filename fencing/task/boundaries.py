"""Where transactions end (KIP-618, "Transaction boundaries"). Pure: the task asks, and acts on the answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ringfence.connectors.delivery_settings import TRANSACTION_BOUNDARY_INTERVAL_MS
from ringfence.connectors.java_settings import SNAPSHOT_TRANSACTION_TIMEOUT_MS, snapshot_timeout_ms
from ringfence.connectors.sdk.delivery import TRANSACTION_BOUNDARY, transaction_boundary
from ringfence.fencing.errors import Invalid


class Boundary(StrEnum):
    """`transaction.boundary`."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Decides after each batch that `poll` returned whether the open transaction ends: see `due`.

    interval_s: seconds between commits if kind is INTERVAL. snapshot_ms: how long the transaction of an initial
    snapshot may be open; 0 if a snapshot is not a single transaction (`fencing.task.snapshot_transaction`).
    """

    kind: Boundary
    interval_s: float = 0.0
    snapshot_ms: int = 0

    @classmethod
    def of(
        cls, config: Mapping[str, str], default_interval_ms: int, default: str = Boundary.POLL.value
    ) -> "Boundaries":
        """Read them from a connector's configuration; the default interval is the worker's
        `offset.flush.interval.ms`. default: the boundary of a configuration that sets none.
        """
        name = transaction_boundary(config, default)
        if name not in list(Boundary):
            raise Invalid(f"{TRANSACTION_BOUNDARY}={name}: use poll, interval or connector")
        snapshot_ms = _snapshot_ms(config)
        if snapshot_ms and name == Boundary.CONNECTOR:
            raise Invalid(f"snapshot.transaction=true with {TRANSACTION_BOUNDARY}=connector: remove one of them")
        if name != Boundary.INTERVAL:
            return cls(Boundary(name), snapshot_ms=snapshot_ms)
        text = (config.get(TRANSACTION_BOUNDARY_INTERVAL_MS) or "").strip() or str(default_interval_ms)
        if not text.isdecimal() or int(text) < 1:
            raise Invalid(f"{TRANSACTION_BOUNDARY_INTERVAL_MS}={text}: an integer of at least 1 is expected")
        return cls(Boundary.INTERVAL, int(text) / 1000, snapshot_ms)

    def due(self, now: float, last_commit: float) -> bool:
        """Return whether to commit after a batch (or an empty poll) at monotonic time `now`."""
        match self.kind:
            case Boundary.POLL:
                return True
            case Boundary.INTERVAL:
                return now - last_commit >= self.interval_s
            case Boundary.CONNECTOR:
                return False  # only on request: `fencing.task.transaction_context`

    def transaction_timeout_ms(self, configured_ms: int) -> int:
        """Return at least three intervals, so that a slow commit does not look like a dead task, and at least a
        snapshot's time.
        """
        return max(configured_ms, int(self.interval_s * 3000), self.snapshot_ms)


def _snapshot_ms(config: Mapping[str, str]) -> int:
    try:
        return snapshot_timeout_ms(config)
    except ValueError as error:
        raise Invalid(f"{SNAPSHOT_TRANSACTION_TIMEOUT_MS}: an integer is expected ({error})") from error
