"""Computes the effect of another start offset of a share group: records processed again, and records skipped. Pure.

A group without a ledger has processed what is before its start offset. For a connector's group, the ledger decides:
records that are done there are not processed again, whatever the start offset, unless the ledger is moved, too.

People see the ledger with one offset a partition (`merge`, `expand`). One offset combines the states of all slots. If a
user changes it, the states of the slots must be deleted, since they would still count. Offsets are only altered while
the connector is STOPPED and its fencing round is over, so no task can write a state after that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.ledger_keys import parse_partition, partition_key
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffset, encode_key, encode_value
from ringfence.fencing.share.ledger import Ledger, State, encode_state

Changes = Sequence[tuple[Partition, Offset | None]]


def merge(connector: ConnectorName, offsets: Iterable[SourceOffset]) -> list[SourceOffset]:
    """Return the source offsets, with one for all slots' states of a partition. Others are unchanged."""
    ledger, others = Ledger(connector), []
    for source_offset in offsets:
        if parse_partition(source_offset.partition) is None:
            others.append(source_offset)
        else:
            ledger.begin([(encode_key(connector, source_offset.partition), encode_value(source_offset.offset))])
    states = []
    for tp in ledger.partitions():
        state = ledger.state(tp)
        if state is not None:
            key = partition_key(tp)
            states.append(SourceOffset(key, encode_state(replace(state, cluster="")), b""))
    return [*others, *states]


def expand(changes: Changes, source_offsets: Iterable[SourceOffset]) -> Changes:
    """Return the changes, preceded by tombstones for the slots' states of the partitions that they change."""
    partitions = {place[0] for partition, _ in changes if (place := parse_partition(partition)) and place[1] is None}
    targets = {place for partition, _ in changes if (place := parse_partition(partition))}
    tombstones: list[tuple[Partition, Offset | None]] = []
    for source_offset in source_offsets:
        place = parse_partition(source_offset.partition)
        if place is not None and place[0] in partitions and place not in targets and source_offset.offset is not None:
            tombstones.append((source_offset.partition, None))
    return [*tombstones, *changes]


UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """One partition: its first offset and its end, and the group's present and future start.

    topic_id: in the ledger's format; start: UNKNOWN if the group has not started; forgets: whether the group's offset
    is deleted; then `to` is where its settings make it start again.
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
        """Return how many of the partition's present offsets are processed again, and how many are skipped."""
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


def place_of(offset: int, first: int, end: int) -> int:
    """Return the nearest offset that the partition has."""
    return min(max(offset, first), end)


@dataclass(frozen=True, slots=True)
class RequestedStart:
    """The requested start: exactly one of earliest, latest, an offset, or a time (ms since the epoch)."""

    place: str = ""
    offset: int = UNKNOWN
    time_ms: int = UNKNOWN

    @classmethod
    def parse(cls, value: object) -> "RequestedStart":
        """Parse `earliest`, `latest`, `{"offset": n}` or `{"time_ms": n}`. Raises ValueError."""
        match value:
            case "earliest" | "latest":
                return cls(place=value)
            case {"offset": int(number), **others} if not others and _is_number(number):
                return cls(offset=number)
            case {"time_ms": int(number), **others} if not others and _is_number(number):
                return cls(time_ms=number)
        raise ValueError(
            'to must be "earliest", "latest", {"offset": n} or {"time_ms": n}, with a non-negative integer n'
        )

    def as_json(self) -> str | dict[str, int]:
        if self.place:
            return self.place
        return {"offset": self.offset} if self.offset != UNKNOWN else {"time_ms": self.time_ms}

    def find(self, first: int, end: int, at_time: int) -> int:
        """Return the offset in a partition. at_time: of the first record at or after `time_ms`, UNKNOWN for none."""
        if self.place:
            return first if self.place == "earliest" else end
        if self.offset != UNKNOWN:
            return place_of(self.offset, first, end)
        return end if at_time == UNKNOWN else place_of(at_time, first, end)


def _is_number(number: int) -> bool:
    return not isinstance(number, bool) and 0 <= number < 2**63
