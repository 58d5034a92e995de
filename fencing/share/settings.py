"""How a task reads a share group."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ringfence.connectors.kafka_settings import share_group
from ringfence.fencing.errors import Invalid

_MARGIN_S: Final = 5.0
_HEARTBEAT_MS: Final = 1000


class Start(StrEnum):
    """Where a topic begins that the ledger does not know yet."""

    EARLIEST = share_group.EARLIEST
    LATEST = share_group.LATEST


class Exhausted(StrEnum):
    """What becomes of a record that has ended its process again and again."""

    DEAD_LETTER = share_group.DEAD_LETTER
    RETRY = share_group.RETRY


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """lock_ms: how long the broker leaves a record to one task. delivery_limit: how often it delivers one. max_locks:
    how many records of a partition may be locked. sweep_after_s: after how long a record that nobody has committed is
    read from the topic itself. patience_s: how long an undecided claim is waited for before its task is fenced.
    """

    start: Start = Start.EARLIEST
    lock_ms: int = share_group.NUMBERS[share_group.LOCK_MS][0]
    delivery_limit: int = share_group.NUMBERS[share_group.DELIVERY_LIMIT][0]
    max_locks: int = share_group.NUMBERS[share_group.MAX_LOCKS][0]
    sweep_after_s: float = 155.0
    patience_s: float = 10.0
    exhausted: Exhausted = Exhausted.RETRY

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "ShareSettings":
        """Raises `Invalid`."""
        try:
            start = Start(config.get(share_group.START) or Start.EARLIEST)
            exhausted = Exhausted(config.get(share_group.EXHAUSTED) or Exhausted.RETRY)
        except ValueError as error:
            raise Invalid(f"{share_group.START} or {share_group.EXHAUSTED}: {error}") from error
        lock_ms, limit, locks, sweep_ms, patience_ms = (
            share_group.number_of(config, name) for name in share_group.NUMBERS
        )
        # The default gives the broker time for all of its deliveries.
        sweep_s = sweep_ms / 1000 if sweep_ms else limit * lock_ms / 1000 + _MARGIN_S
        return cls(start, lock_ms, limit, locks, sweep_s, patience_ms / 1000, exhausted)

    @property
    def of_group(self) -> Mapping[str, str]:
        """The group's own settings. Kafka's defaults skip the past, and deliver what is aborted."""
        return {
            "isolation.level": "read_committed",
            "auto.offset.reset": str(self.start),
            "record.lock.duration.ms": str(self.lock_ms),
            "delivery.count.limit": str(self.delivery_limit),
            "partition.max.record.locks": str(self.max_locks),
        }

    @property
    def where_allowed(self) -> Mapping[str, str]:
        """Settings that are good to have: the first record comes after a heartbeat, five seconds by default."""
        return {"heartbeat.interval.ms": str(_HEARTBEAT_MS)}
