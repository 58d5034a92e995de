"""The state of a connector's ledger, folded from the claims, states and markers in its log. Pure.

What is committed counts; what is undecided may still count. Only the transaction's marker in this log decides it,
neither a fencing request nor its response.

The records of a connector's ledger, in one partition of its offsets topic (docs/share-groups.md, "The ledger").

A *claim* is the first record of a transaction: it names the offsets that the transaction processes. Its key is not a
source partition, so readers of source offsets skip it. It has no meaning once its transaction has ended.

A *state* is a source offset, produced last: what one slot (a task's number) has committed of one input partition, from
`low` on. Every offset below `low` is done. Only the last state of each slot counts, so the ledger may be compacted.
A state without a slot describes the whole partition: the REST API shows it, and writes it when a user alters offsets.

All of them are in partition 0 of the topic.

A transaction claims its offsets first, and writes the slot's new state last. The state only counts if the transaction
commits, so it already includes the claimed offsets.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.ledger_keys import SLOT, InputPartition, is_number, parse_partition, partition_key
from ringfence.fencing.offsets.source_offsets import Offset, Partition, decode_value
from ringfence.fencing.share.offset_ranges import Ranges

TOPIC: Final = "topic"
LOW: Final = "low"
DONE: Final = "done"
CLUSTER: Final = "cluster"
TRIES: Final = "tries"

_CLAIM: Final = "claim"
START: Final = -1
"""The offset that a slot claims in order to set where a partition begins."""


Claims = Mapping[InputPartition, Ranges]


@dataclass(frozen=True, slots=True)
class Claim:
    """The offsets that one transaction processes. slot: the number of the task whose transactional id it has."""

    slot: int
    offsets: Claims


@dataclass(slots=True)
class State:
    """tries: how often the sweep tried an offset before it was done; only offsets that it tried. cluster: the id of the
    topic's cluster, "" if unknown.
    """

    topic: str
    low: int
    done: Ranges = field(default_factory=Ranges)
    tries: dict[int, int] = field(default_factory=dict)
    cluster: str = ""


def claim_key(connector: ConnectorName, slot: int) -> bytes:
    """Return the key of a slot's claims: one for each slot, so compaction keeps at most the newest claim."""
    return _dump([connector, _CLAIM, slot])


def encode_claim(claim: Claim) -> bytes:
    offsets = [[tp.topic_id, tp.partition, ranges.pairs()] for tp, ranges in claim.offsets.items()]
    return _dump({SLOT: claim.slot, _CLAIM: offsets})


def decode_claim(connector: ConnectorName, key: object, value: bytes | None) -> Claim | None:
    """Return the claim; None if it is not this connector's. key: parsed. Raises ValueError if it is unreadable."""
    if not isinstance(key, list) or len(key) != 3 or key[0] != connector or key[1] != _CLAIM or value is None:
        return None
    try:
        fields = json.loads(value)
        offsets = {InputPartition(str(topic), int(number)): Ranges(pairs) for topic, number, pairs in fields[_CLAIM]}
        return Claim(int(fields[SLOT]), offsets)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"A claim of connector {connector} cannot be read: {value[:200]!r}") from error


def encode_state(state: State) -> Offset:
    """Return the source offset of a state."""
    offset: dict[str, object] = {TOPIC: state.topic, LOW: state.low, DONE: state.done.pairs()}
    if state.tries:
        offset[TRIES] = sorted(state.tries.items())
    return {**offset, CLUSTER: state.cluster} if state.cluster else offset


def decode_state(offset: Offset) -> State:
    """Parse the state. Raises ValueError, which says what is wrong."""
    low = offset.get(LOW)
    if not is_number(low):
        raise ValueError(f"{LOW!r} must be a non-negative integer: everything before it is done")
    done, tries = offset.get(DONE, []), offset.get(TRIES, [])
    if not isinstance(done, list) or not all(_is_pair(pair) and pair[0] <= pair[1] for pair in done):
        raise ValueError(f"{DONE!r} must be a list of [first, last] offsets")
    if not isinstance(tries, list) or not all(map(_is_pair, tries)):
        raise ValueError(f"{TRIES!r} must be a list of [offset, times]")
    return State(str(offset.get(TOPIC, "")), int(str(low)), Ranges(done), dict(tries), str(offset.get(CLUSTER, "")))


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_number, value))


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


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


class ProcessedOffsets:
    """The claim of the open transaction, and the committed states of this slot. `ledger` needs the tail's lock."""

    def __init__(self, ledger: Ledger, slot: int, slots: Callable[[], int] = lambda: 0) -> None:
        """slots: returns the number of tasks in this generation, 0 if unknown. Older generations are fenced already."""
        self._ledger = ledger
        self._slot = slot
        self._slots = slots
        self._own: dict[InputPartition, State] = {}
        self._claims: dict[InputPartition, Ranges] = {}
        self._pending_ranges: dict[InputPartition, Ranges] = {}
        self._starts: dict[InputPartition, int] = {}
        self._topics: dict[InputPartition, str] = {}
        self._tries: dict[InputPartition, dict[int, int]] = {}
        self._next_states: dict[InputPartition, State] = {}
        self._deleted_partitions: set[InputPartition] = set()
        self.cluster = ""
        """The id of the input's cluster; "" if it is unknown."""

    def restart(self, ledger: Ledger) -> None:
        """Continue with a ledger that was read to its end, after a transaction with an unknown outcome."""
        self._ledger = ledger
        self._own.clear()
        self.forget()

    def forget(self) -> None:
        """Forget the open transaction, which is not committed. Its offsets are free again."""
        for collection in (self._claims, self._starts, self._next_states, self._tries, self._deleted_partitions):
            collection.clear()

    def is_known(self, tp: InputPartition) -> bool:
        """Return whether the start of the partition is known."""
        return self._ledger.state(tp) is not None or tp in self._own

    def is_done(self, tp: InputPartition, offset: int) -> bool:
        """Return whether the offset is committed, or has no record."""
        state, own = self._ledger.state(tp), self._own.get(tp)
        return (
            (state is not None and (offset < state.low or offset in state.done))
            or (own is not None and (offset < own.low or offset in own.done))
            or (tp in self._pending_ranges and offset in self._pending_ranges[tp])
        )

    def find_committed(self, tp: InputPartition) -> State:
        """Return what is committed of a partition, as far as this slot knows, with the gaps that it has noted."""
        state, own = self._ledger.state(tp), self._own.get(tp)
        union = State("", 0) if state is None else State(state.topic, state.low, state.done.copy(), dict(state.tries))
        if own is not None:
            union.topic, union.low = own.topic or union.topic, max(union.low, own.low)
            union.done.update(own.done)
            union.tries |= own.tries
        if tp in self._pending_ranges:
            union.done.update(self._pending_ranges[tp])
        union.low = union.done.first_missing(union.low)
        union.done.drop_below(union.low)
        return union

    def claim(self, tp: InputPartition, offsets: Iterable[int]) -> None:
        """Add offsets to the claim of the open transaction."""
        ranges = self._claims.setdefault(tp, Ranges())
        for offset in offsets:
            ranges.add(offset, offset)

    def claim_start(self, tp: InputPartition, topic: str, low: int) -> None:
        """Claim that a partition begins at `low`. The first claim of all slots decides."""
        self._claims.setdefault(tp, Ranges()).add(START, START)
        self._starts[tp] = low
        self._topics[tp] = topic

    def note(self, tp: InputPartition, first: int, last: int) -> None:
        """Note that these offsets have no record. The next commit writes it."""
        self._pending_ranges.setdefault(tp, Ranges()).add(first, last)

    def count_try(self, tp: InputPartition, offset: int, times: int) -> None:
        """Write with the next commit that the sweep is about to try this offset for the `times`th time."""
        self._tries.setdefault(tp, {})[offset] = times

    def find_tries(self, tp: InputPartition, offset: int) -> int:
        """Return how often the sweep has tried an offset."""
        ledger_state, own = self._ledger.state(tp), self._own.get(tp)
        return max((state.tries.get(offset, 0) for state in (ledger_state, own) if state is not None), default=0)

    def end(self, tp: InputPartition) -> None:
        """Remove the states of a partition that was deleted (`DeletedTopics`), with the next commit."""
        self._deleted_partitions.add(tp)

    @property
    def pending(self) -> bool:
        """Whether there is something to claim or to write, even without records."""
        return bool(self._claims or self._tries or self._deleted_partitions)

    @property
    def pending_count(self) -> int:
        """The number of ranges without records that are not written yet."""
        return sum(map(len, self._pending_ranges.values()))

    def take_claim(self) -> Claim:
        """Return the claim of the transaction that begins now."""
        return Claim(self._slot, {tp: ranges.copy() for tp, ranges in self._claims.items()})

    @property
    def claims(self) -> Claims:
        return self._claims

    def states(self) -> list[tuple[Partition, Offset | None]]:
        """Return the states that the transaction writes at its end: source partition and source offset of each input
        partition that it touches.

        It takes over the states of slots that no longer exist, and removes them (None) in the same transaction.
        """
        count = self._slots()
        self._next_states, tombstones = {}, []
        self._deleted_partitions -= self._claims.keys()
        for tp in self._deleted_partitions:
            self._pending_ranges.pop(tp, None)
            tombstones += [(partition_key(tp, slot), None) for slot in self._ledger.slots(tp)]
        for tp in {**self._claims, **self._pending_ranges, **self._tries}:
            slots = [slot for slot in self._ledger.slots(tp) if count and (slot is None or slot >= count)]
            self._next_states[tp] = self._state(tp, slots)
            tombstones += [(partition_key(tp, slot), None) for slot in slots]
        return [
            *((partition_key(tp, self._slot), encode_state(state)) for tp, state in self._next_states.items()),
            *tombstones,
        ]

    def _state(self, tp: InputPartition, slots: Sequence[int | None]) -> State:
        union = self.find_committed(tp)
        last = self._own.get(tp) or self._ledger.slot_state(tp, self._slot)
        done = last.done.copy() if last is not None else Ranges()
        tries = dict(last.tries) if last is not None else {}
        for slot in slots:
            if (state := self._ledger.slot_state(tp, slot)) is not None:
                done.update(state.done)
                for offset, times in state.tries.items():
                    tries[offset] = max(times, tries.get(offset, 0))
        for more in (self._claims.get(tp), self._pending_ranges.get(tp)):
            if more is not None:
                done.update(more)
                union.done.update(more)
        low = max(union.low, self._starts.get(tp, 0))
        low = union.done.first_missing(low)
        done.drop_below(low)
        tries |= self._tries.get(tp, {})
        open_tries = {offset: times for offset, times in tries.items() if offset >= low and offset not in done}
        return State(union.topic or self._topics.get(tp, ""), low, done, open_tries, self.cluster)

    def settle(self) -> None:
        """Record that the transaction is committed."""
        self._own.update(self._next_states)
        for tp in self._next_states:
            self._pending_ranges.pop(tp, None)
        for tp in self._deleted_partitions:
            self._own.pop(tp, None)
        self.forget()
