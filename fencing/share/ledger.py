"""A connector's ledger as its log tells it, claim by claim and marker by marker. Pure.

What is committed counts; what is undecided may. Which of the two it is stands in the transaction's marker in this very
log, and nowhere else: neither a fence that was sent nor an answer that was received decides it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.ledger_keys import InputPartition, parse_partition
from ringfence.fencing.offsets.source_offsets import decode_value
from ringfence.fencing.share.ledger_records import Claim, Claims, State, decode_claim, decode_state


@dataclass(frozen=True, slots=True)
class Rivals:
    """What stands in a claim's way: earlier claims on some of its offsets.

    committed: one of them has won already. undecided: the slots of those that may still.
    """

    committed: bool
    undecided: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Place:
    offset: int
    claim: Claim


class _Transaction:
    """What an open transaction has put into the ledger so far."""

    __slots__ = ("claims", "states")

    def __init__(self) -> None:
        self.claims: list[_Place] = []
        self.states: list[tuple[InputPartition, int | None, State | None]] = []


class Ledger:
    """Folds the ledger partition's records, read_uncommitted and in their order, and the markers between them."""

    def __init__(self, connector: ConnectorName) -> None:
        self.connector = connector
        self._open: dict[int, _Transaction] = {}
        self._slots: dict[InputPartition, dict[int | None, State]] = {}
        self._merged: dict[InputPartition, State] = {}

    def begin(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Start from what is known to be committed, keys and values in the order of their writing."""
        for key, value in entries:
            self.take(-1, -1, key, value)

    def take(self, producer_id: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """The next record. producer_id: -1 where it belongs to no transaction, and is committed as it stands.

        Raises ValueError for a record of this connector's ledger that cannot be read: nothing is skipped in silence.
        """
        if key is None or (self.connector.encode() not in key and b"\\" not in key):
            return
        try:
            loaded: object = json.loads(key)
        except ValueError:
            return
        if not isinstance(loaded, list) or not loaded or loaded[0] != self.connector:
            return
        transaction = self._open.setdefault(producer_id, _Transaction()) if producer_id >= 0 else _Transaction()
        claim = decode_claim(self.connector, loaded, value)
        if claim is not None:
            transaction.claims.append(_Place(offset, claim))
        elif len(loaded) == 2 and isinstance(loaded[1], dict):
            parsed = parse_partition(loaded[1])
            if parsed is None:
                return
            found = decode_value(value)
            state = None if found is None else decode_state(found)
            transaction.states.append((*parsed, state))
        if producer_id < 0:
            self._apply(transaction)

    def decide(self, producer_id: int, committed: bool) -> None:
        """A marker: the transaction of this producer is over."""
        transaction = self._open.pop(producer_id, None)
        if transaction is not None and committed:
            self._apply(transaction)

    def _apply(self, transaction: _Transaction) -> None:
        for tp, slot, state in transaction.states:
            slots = self._slots.setdefault(tp, {})
            if state is not None and slot is not None:
                slots[slot] = state
                if tp in self._merged:
                    _merge(self._merged[tp], state)
                else:
                    self._rebuild(tp)
                continue
            # By hand: offsets may go back, so nothing that was merged before counts.
            slots.pop(slot, None)
            if state is not None:
                slots[slot] = state
            self._rebuild(tp)

    def _rebuild(self, tp: InputPartition) -> None:
        self._merged.pop(tp, None)
        for state in self._slots[tp].values():
            merged = self._merged.setdefault(tp, State(state.topic, state.low))
            _merge(merged, state)
        if not self._slots[tp]:
            del self._slots[tp]

    def state(self, tp: InputPartition) -> State | None:
        """What all slots together have committed; None for a partition that the ledger does not have. Do not change."""
        return self._merged.get(tp)

    def slot_state(self, tp: InputPartition, slot: int | None) -> State | None:
        """The last committed state of one slot. Do not change."""
        return self._slots.get(tp, {}).get(slot)

    def slots(self, tp: InputPartition) -> list[int | None]:
        """Whose states of a partition there are; None: the one that was written by hand."""
        return list(self._slots.get(tp, ()))

    def partitions(self) -> list[InputPartition]:
        """Those that it has a word of."""
        return list(self._merged)

    def places(self) -> dict[InputPartition, tuple[str, str]]:
        """The partitions with their topic's name and their cluster's id, "" where nobody has said it."""
        return {tp: (state.topic, state.cluster) for tp, state in self._merged.items()}

    def find_rivals(self, claims: Claims, before: int) -> Rivals:
        """Who else wants these offsets, with a claim at a ledger offset before `before`, or has them already."""
        for tp, wanted in claims.items():
            state = self._merged.get(tp)
            if state is not None and any(first < state.low or state.done.meets(first, last) for first, last in wanted):
                return Rivals(True)
        undecided = {
            place.claim.slot
            for transaction in self._open.values()
            for place in transaction.claims
            if place.offset < before and _overlap(claims, place.claim.offsets)
        }
        return Rivals(False, frozenset(undecided))


def _overlap(one: Claims, other: Claims) -> bool:
    return any(tp in other and ranges.overlaps(other[tp]) for tp, ranges in one.items())


def _merge(merged: State, state: State) -> None:
    merged.low = max(merged.low, state.low)
    merged.done.update(state.done)
    merged.low = merged.done.first_missing(merged.low)
    merged.done.drop_below(merged.low)
    merged.topic, merged.cluster = state.topic or merged.topic, state.cluster or merged.cluster
    for offset, times in state.tries.items():
        merged.tries[offset] = max(times, merged.tries.get(offset, 0))
    for offset in [offset for offset in merged.tries if offset < merged.low or offset in merged.done]:
        del merged.tries[offset]
