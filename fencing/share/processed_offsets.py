"""The offsets of the input that one task (slot) has processed, or is processing in its open transaction. Pure.

A transaction claims its offsets first, and writes the slot's new state last. The state only counts if the transaction
commits, so it already includes the claimed offsets.
"""

from collections.abc import Callable, Iterable, Sequence

from ringfence.fencing.offsets.ledger_keys import InputPartition, partition_key
from ringfence.fencing.offsets.source_offsets import Offset, Partition
from ringfence.fencing.share.ledger import Ledger
from ringfence.fencing.share.ledger_records import START, Claim, Claims, State, encode_state
from ringfence.fencing.share.offset_ranges import Ranges


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
        """Remove the states of a partition that was deleted (`deleted_topics`), with the next commit."""
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
