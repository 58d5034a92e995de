"""How far a range was read, and as of when: the source offset of one range.

A range is read under one snapshot of the database. A task that dies goes on behind the last committed key under a newer
snapshot, so a range may consist of several segments. The stream needs to know of each which snapshot its rows are from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ringfence.connectors.api import ConnectorError, SourceOffset
from ringfence.connectors.builtin.postgres.snapshot.plan import Key, Plan


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows behind the key `after` (None: from the range's beginning), up to the next segment or the range's end.

    snapshot: `pg_current_snapshot()` as text. until: a position in the write-ahead log behind the commit of every
    transaction that it sees.
    """

    after: Key | None
    snapshot: str
    until: int


@dataclass(frozen=True, slots=True)
class RangeProgress:
    """`last`: the key of the last row that was read; None before the first. rows: how many were read; at_ms: when."""

    plan: str
    segments: tuple[Segment, ...] = ()
    last: Key | None = None
    rows: int = 0
    done: bool = False
    at_ms: int = 0

    def begin(self, snapshot: str, until: int) -> "RangeProgress":
        """The rest is read under this snapshot. A segment that has led to no row is replaced."""
        kept = self.segments
        if kept and (self.last is None or kept[-1].after == self.last):
            kept = kept[:-1]
        return replace(self, segments=(*kept, Segment(self.last, snapshot, until)))

    def as_offset(self) -> SourceOffset:
        return {
            "plan": self.plan,
            "segments": [[_as_list(one.after), one.snapshot, one.until] for one in self.segments],
            "last": _as_list(self.last),
            "rows": self.rows,
            "done": self.done,
            "at_ms": self.at_ms,
        }


def _as_list(key: Key | None) -> list[str] | None:
    return None if key is None else list(key)


def _key(value: Any) -> Key | None:
    return None if value is None else tuple(map(str, value))


def progress_of(plan: Plan, offset: SourceOffset | None) -> RangeProgress:
    """Nothing read where there is no offset, or one of an earlier plan. Raises `ConnectorError`."""
    if offset is None or offset.get("plan") != plan.id:
        return RangeProgress(plan.id)
    try:
        segments: Sequence[Any] = offset["segments"]  # type: ignore[assignment] # checked by what follows
        return RangeProgress(
            plan.id,
            tuple(Segment(_key(after), str(snapshot), int(until)) for after, snapshot, until in segments),
            _key(offset["last"]),
            int(str(offset["rows"])),
            offset["done"] is True,
            int(str(offset.get("at_ms", 0))),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConnectorError(
            f"The offset {dict(offset)} does not say how far a range of the snapshot was read. Stop the connector, "
            "reset its offsets and resume it: the tables are read from their beginning."
        ) from error
