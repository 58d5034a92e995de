"""Finds the open transaction that holds the last stable offset of a partition."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.end_offsets import Ends
from ringfence.fencing.kafka.hanging_transactions import Hanging, HangingProber

_Where = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Holder:
    """The transaction that holds a last stable offset. transactional_id: "" if no coordinator knows the producer;
    since_ms: when it began, -1 if unknown.
    """

    producer_id: int
    epoch: int
    first_offset: int
    transactional_id: str
    since_ms: int


def find_holders(prober: HangingProber, ends: Mapping[_Where, Ends], deadline: Deadline) -> dict[_Where, Holder]:
    """Return the open transaction that begins at the last stable offset, by partition.

    Partitions whose last stable offset is not held, or whose transaction has ended since, are left out.
    """
    stable_offsets = {place: each.stable for place, each in ends.items() if each.stable < each.end}
    first = _first_of(prober.open_in(stable_offsets)) if stable_offsets else {}
    first = {place: one for place, one in first.items() if one.start_offset <= stable_offsets[place]}
    owners = prober.owners({one.producer_id for one in first.values()}, deadline) if first else {}
    holders = {}
    for place, one in first.items():
        owner = owners.get(one.producer_id)
        name, since = (owner.transactional_id, owner.started_ms) if owner is not None else ("", -1)
        holders[place] = Holder(one.producer_id, one.epoch, one.start_offset, name, since)
    return holders


def _first_of(transactions: Iterable[Hanging]) -> dict[_Where, Hanging]:
    first: dict[_Where, Hanging] = {}
    for one in transactions:
        place = (one.topic, one.partition)
        if place not in first or one.start_offset < first[place].start_offset:
            first[place] = one
    return first
