"""What it means that a share group begins elsewhere in a partition, in numbers. Pure.

A group without a ledger has done what is before its start offset. For a connector's group the ledger counts: what it
has as done is not processed again, wherever the group begins, unless the ledger is moved with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ringfence.fencing.share.ledger_records import State

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """One partition: its first offset and its end, where the group begins now, and where it will.

    topic_id: as the ledger writes it. start: UNKNOWN where the group has not begun. forgets: the group will know
    nothing of the partition any more, and `to` is where it begins by its settings when it is read again.
    """

    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    start: int
    to: int
    forgets: bool = False

    @property
    def changes(self) -> bool:
        return self.forgets or self.to != self.start

    def count(self, ledger: State | None = None) -> tuple[int, int]:
        """How many offsets are processed again, and how many never: of those that the partition still has."""
        if ledger is not None:
            return self._count_by(ledger)
        if self.start == UNKNOWN:
            return 0, 0
        start = min(max(self.start, self.first), self.end)
        return max(0, start - self.to), max(0, self.to - start)

    def _count_by(self, ledger: State) -> tuple[int, int]:
        again = max(0, min(ledger.low, self.end) - max(self.to, self.first))
        front = max(self.to, ledger.low)
        again += sum(last - max(start, self.to) + 1 for start, last in ledger.done if last >= front)
        left = ledger.done.missing(max(ledger.low, self.first), min(self.to, self.end) - 1)
        return again, sum(last - start + 1 for start, last in left)


def place_of(wanted: int, first: int, end: int) -> int:
    """The nearest offset that the partition has."""
    return min(max(wanted, first), end)


@dataclass(frozen=True, slots=True)
class Wish:
    """Where a group is to begin: exactly one of earliest, latest, an offset, or a time (ms since the epoch)."""

    place: str = ""
    offset: int = UNKNOWN
    time_ms: int = UNKNOWN

    @classmethod
    def parse(cls, value: object) -> "Wish":
        """`earliest`, `latest`, `{"offset": n}` or `{"time_ms": n}`. Raises ValueError with what is wrong."""
        match value:
            case "earliest" | "latest":
                return cls(place=value)
            case {"offset": int(number), **others} if not others and _is_number(number):
                return cls(offset=number)
            case {"time_ms": int(number), **others} if not others and _is_number(number):
                return cls(time_ms=number)
        raise ValueError('to must be "earliest", "latest", {"offset": n} or {"time_ms": n}, n an integer, not negative')

    def as_json(self) -> str | dict[str, int]:
        if self.place:
            return self.place
        return {"offset": self.offset} if self.offset != UNKNOWN else {"time_ms": self.time_ms}

    def find(self, first: int, end: int, at_time: int) -> int:
        """The offset in a partition. at_time: that of the first record at or after `time_ms`, UNKNOWN for none."""
        if self.place:
            return first if self.place == "earliest" else end
        if self.offset != UNKNOWN:
            return place_of(self.offset, first, end)
        return end if at_time == UNKNOWN else place_of(at_time, first, end)


def _is_number(number: int) -> bool:
    return not isinstance(number, bool) and 0 <= number < 2**63


def sum_up(moves: Mapping[PartitionMove, State | None]) -> tuple[int, int]:
    """All partitions together: processed again, and never."""
    counts = [move.count(state) for move, state in moves.items()]
    return sum(again for again, _ in counts), sum(skipped for _, skipped in counts)
