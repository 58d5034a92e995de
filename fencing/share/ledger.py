"""The state of a connector's ledger, folded from the claims, states and markers in its log. Pure.

What is committed counts; what is undecided may still count. Only the transaction's marker in this log decides it,
neither a fencing request nor its response.
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
    """The earlier claims on some of a claim's offsets.

    committed: one of them is committed. open_slots: the slots of those that may still be committed.
    """

    committed: bool
    open_slots: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class _Place:
    offset: int
    claim: Claim


class _Transaction:
    """What an open transaction has written to the ledger so far."""

    __slots__ = ("claims", "states")

    def __init__(self) -> None:
        self.claims: list[_Place] = []
        self.states: list[tuple[InputPartition, int | None, State | None]] = []


class Ledger:
    """Folds the ledger partition's records, read with read_uncommitted and in order, and the markers between them."""

    def __init__(self, connector: ConnectorName) -> None:
        self.connector = connector
        self._open: dict[int, _Transaction] = {}
        self._slots: dict[InputPartition, dict[int | None, State]] = {}
        self._states: dict[InputPartition, State] = {}

    def begin(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Start from records that are known to be committed: keys and values, in the order of their offsets."""
        for key, value in entries:
            self.take(-1, -1, key, value)

    def take(self, producer_id: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Apply the next record. producer_id: -1 if it has no transaction, and so counts at once.

        Raises ValueError for a record of this connector's ledger that cannot be read: none is skipped silently.
        """
        if key is None or (self.connector.encode() not in key and b"\\" not in key):
            return
        try:
            parts: object = json.loads(key)
        except ValueError:
            return
        if not isinstance(parts, list) or not parts or parts[0] != self.connector:
            return
        transaction = self._open.setdefault(producer_id, _Transaction()) if producer_id >= 0 else _Transaction()
        claim = decode_claim(self.connector, parts, value)
        if claim is not None:
            transaction.claims.append(_Place(offset, claim))
        elif len(parts) == 2 and isinstance(parts[1], dict):
            place = parse_partition(parts[1])
            if place is None:
                return
            source_offset = decode_value(value)
            state = None if source_offset is None else decode_state(source_offset)
            transaction.states.append((*place, state))
        if producer_id < 0:
            self._apply(transaction)

    def decide(self, producer_id: int, committed: bool) -> None:
        """Apply a marker, which ends the transaction of this producer."""
        transaction = self._open.pop(producer_id, None)
        if transaction is not None and committed:
            self._apply(transaction)

    def _apply(self, transaction: _Transaction) -> None:
        for tp, slot, state in transaction.states:
            slots = self._slots.setdefault(tp, {})
            if state is not None and slot is not None:
                slots[slot] = state
                if tp in self._states:
                    _merge(self._states[tp], state)
                else:
                    self._rebuild(tp)
                continue
            # A user altered the offsets. They may go back, so nothing that was merged before counts.
            slots.pop(slot, None)
            if state is not None:
                slots[slot] = state
            self._rebuild(tp)

    def _rebuild(self, tp: InputPartition) -> None:
        self._states.pop(tp, None)
        for state in self._slots[tp].values():
            union = self._states.setdefault(tp, State(state.topic, state.low))
            _merge(union, state)
        if not self._slots[tp]:
            del self._slots[tp]

    def state(self, tp: InputPartition) -> State | None:
        """Return what all slots have committed; None if the ledger has no such partition. Do not modify it."""
        return self._states.get(tp)

    def slot_state(self, tp: InputPartition, slot: int | None) -> State | None:
        """Return the last committed state of one slot. Do not modify it."""
        return self._slots.get(tp, {}).get(slot)

    def slots(self, tp: InputPartition) -> list[int | None]:
        """Return the slots that have a state of this partition; None stands for the state that a user wrote."""
        return list(self._slots.get(tp, ()))

    def partitions(self) -> list[InputPartition]:
        """Return the partitions that it has a state of."""
        return list(self._states)

    def places(self) -> dict[InputPartition, tuple[str, str]]:
        """Return the partitions with their topic's name and their cluster's id, "" if it is unknown."""
        return {tp: (state.topic, state.cluster) for tp, state in self._states.items()}

    def find_rivals(self, claims: Claims, before: int) -> Rivals:
        """Return the other claims on these offsets: those at ledger offsets before `before`, and committed ones."""
        for tp, ranges in claims.items():
            state = self._states.get(tp)
            if state is not None and any(first < state.low or state.done.meets(first, last) for first, last in ranges):
                return Rivals(True)
        open_slots = {
            place.claim.slot
            for transaction in self._open.values()
            for place in transaction.claims
            if place.offset < before and _overlap(claims, place.claim.offsets)
        }
        return Rivals(False, frozenset(open_slots))


def _overlap(one: Claims, other: Claims) -> bool:
    return any(tp in other and ranges.overlaps(other[tp]) for tp, ranges in one.items())


def _merge(union: State, state: State) -> None:
    union.low = max(union.low, state.low)
    union.done.update(state.done)
    union.low = union.done.first_missing(union.low)
    union.done.drop_below(union.low)
    union.topic, union.cluster = state.topic or union.topic, state.cluster or union.cluster
    for offset, times in state.tries.items():
        union.tries[offset] = max(times, union.tries.get(offset, 0))
    for offset in [offset for offset in union.tries if offset < union.low or offset in union.done]:
        del union.tries[offset]
