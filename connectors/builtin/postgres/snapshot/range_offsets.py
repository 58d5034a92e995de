"""The source offset of one range: how far it was read, and with which database snapshots.

A range is read with one database snapshot. After a failure, the task continues after the last committed key with a
newer snapshot, so a range may have several segments. The stream needs to know the database snapshot of each segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ringfence.connectors.api import ConnectorError, SourceOffset
from ringfence.connectors.builtin.postgres.snapshot.plan import Key, Plan


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows after the key `after` (None: from the range's beginning), up to the next segment or the range's end.

    snapshot: `pg_current_snapshot()` as text. until: a position in the write-ahead log after the commit of every
    transaction that the snapshot sees.
    """

    after: Key | None
    snapshot: str
    until: int


@dataclass(frozen=True, slots=True)
class RangeProgress:
    """last: the key of the last row that was read, None before the first; rows: the number of rows that were read;
    at_ms: when the last one was read, since 1970.
    """

    plan: str
    segments: tuple[Segment, ...] = ()
    last: Key | None = None
    rows: int = 0
    done: bool = False
    at_ms: int = 0

    def begin(self, snapshot: str, until: int) -> "RangeProgress":
        """Begin a segment for the rest of the range. It replaces the last segment if that has no rows."""
        segments = self.segments
        if segments and (self.last is None or segments[-1].after == self.last):
            segments = segments[:-1]
        return replace(self, segments=(*segments, Segment(self.last, snapshot, until)))

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
    """Return the progress in an offset: none if the offset is missing or of an earlier plan. Raises
    `ConnectorError` for an invalid offset.
    """
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
            f"The offset {dict(offset)} of a range of the snapshot is invalid. Stop the connector, reset its offsets "
            "and resume it: the tables are read from the beginning."
        ) from error
