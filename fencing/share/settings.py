"""The settings of a task that reads a share group."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ringfence.connectors.sdk.kafka_settings import share_group
from ringfence.fencing.errors import Invalid

_MARGIN_S: Final = 5.0
_HEARTBEAT_MS: Final = 1000


class Start(StrEnum):
    """Where to start in a topic that the ledger does not know yet."""

    EARLIEST = share_group.EARLIEST
    LATEST = share_group.LATEST


class ExhaustionPolicy(StrEnum):
    """What to do with a record that has ended its process repeatedly."""

    DEAD_LETTER = share_group.DEAD_LETTER
    RETRY = share_group.RETRY


@dataclass(frozen=True, slots=True)
class ShareSettings:
    """lock_ms: how long the broker locks a record for a task. delivery_limit: how often it delivers a record.
    max_locks: how many records of a partition may be locked. sweep_after_s: after how long an uncommitted record is
    read from the topic itself. patience_s: how long to wait for an undecided claim before its task is fenced.
    """

    start: Start = Start.EARLIEST
    lock_ms: int = share_group.NUMBERS[share_group.LOCK_MS][0]
    delivery_limit: int = share_group.NUMBERS[share_group.DELIVERY_LIMIT][0]
    max_locks: int = share_group.NUMBERS[share_group.MAX_LOCKS][0]
    sweep_after_s: float = 155.0
    patience_s: float = 10.0
    exhaustion: ExhaustionPolicy = ExhaustionPolicy.RETRY

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "ShareSettings":
        """Parse a configuration. Raises `Invalid`."""
        try:
            start = Start(config.get(share_group.START) or Start.EARLIEST)
            exhaustion = ExhaustionPolicy(config.get(share_group.EXHAUSTED) or ExhaustionPolicy.RETRY)
        except ValueError as error:
            raise Invalid(f"{share_group.START} or {share_group.EXHAUSTED}: {error}") from error
        lock_ms, limit, locks, sweep_ms, patience_ms = (
            share_group.number_of(config, name) for name in share_group.NUMBERS
        )
        # The default leaves the broker time for all of its deliveries.
        sweep_s = sweep_ms / 1000 if sweep_ms else limit * lock_ms / 1000 + _MARGIN_S
        return cls(start, lock_ms, limit, locks, sweep_s, patience_ms / 1000, exhaustion)

    @property
    def of_group(self) -> Mapping[str, str]:
        """Return the settings of the group. Kafka's defaults would skip old records, and deliver aborted ones."""
        return {
            "isolation.level": "read_committed",
            "auto.offset.reset": str(self.start),
            "record.lock.duration.ms": str(self.lock_ms),
            "delivery.count.limit": str(self.delivery_limit),
            "partition.max.record.locks": str(self.max_locks),
        }

    @property
    def where_allowed(self) -> Mapping[str, str]:
        """Return settings that are useful but optional: the first record takes a heartbeat, by default five seconds."""
        return {"heartbeat.interval.ms": str(_HEARTBEAT_MS)}
