"""One slot's side of the ledger: what it claims, and what it states when it commits. Pure.

The state that is written counts only if its transaction commits, so the claim itself is in it already.
"""

from collections.abc import Callable, Iterable, Sequence

from ringfence.fencing.offsets.ledger_keys import InputPartition, partition_key
from ringfence.fencing.offsets.source_offsets import Offset, Partition
from ringfence.fencing.share.ledger import Ledger
from ringfence.fencing.share.ledger_records import START, Claim, Claims, State, encode_state
from ringfence.fencing.share.ranges import Ranges


class SlotClaims:
    """The open transaction's claim and this slot's own states. Read `ledger` under the tail's lock."""

    def __init__(self, ledger: Ledger, slot: int, slots: Callable[[], int] = lambda: 0) -> None:
        """slots: how many tasks this one's generation has, 0 where that is not known. Others were fenced before it."""
        self._ledger = ledger
        self._slot = slot
        self._slots = slots
        self._own: dict[InputPartition, State] = {}
        self._wanted: dict[InputPartition, Ranges] = {}
        self._noted: dict[InputPartition, Ranges] = {}
        self._starts: dict[InputPartition, int] = {}
        self._topics: dict[InputPartition, str] = {}
        self._tries: dict[InputPartition, dict[int, int]] = {}
        self._stated: dict[InputPartition, State] = {}
        self._gone: set[InputPartition] = set()
        self.cluster = ""
        """The id of the input's cluster, where it is known."""

    def restart(self, ledger: Ledger) -> None:
        """After any doubt: what this slot has committed is what the ledger says, read to its end."""
        self._ledger = ledger
        self._own.clear()
        self.forget()

    def forget(self) -> None:
        """The open transaction is not committed; what it was about is nobody's."""
        for kept in (self._wanted, self._starts, self._stated, self._tries, self._gone):
            kept.clear()

    def is_known(self, tp: InputPartition) -> bool:
        """Whether it is settled where the partition begins."""
        return self._ledger.state(tp) is not None or tp in self._own

    def is_done(self, tp: InputPartition, offset: int) -> bool:
        state, own = self._ledger.state(tp), self._own.get(tp)
        return (
            (state is not None and (offset < state.low or offset in state.done))
            or (own is not None and (offset < own.low or offset in own.done))
            or (tp in self._noted and offset in self._noted[tp])
        )

    def find_committed(self, tp: InputPartition) -> State:
        """All that is committed of a partition, as far as this slot knows, and the gaps that it has noted."""
        found, own = self._ledger.state(tp), self._own.get(tp)
        merged = State("", 0) if found is None else State(found.topic, found.low, found.done.copy(), dict(found.tries))
        if own is not None:
            merged.topic, merged.low = own.topic or merged.topic, max(merged.low, own.low)
            merged.done.update(own.done)
            merged.tries |= own.tries
        if tp in self._noted:
            merged.done.update(self._noted[tp])
        merged.low = merged.done.first_missing(merged.low)
        merged.done.drop_below(merged.low)
        return merged

    def claim(self, tp: InputPartition, offsets: Iterable[int]) -> None:
        """These offsets are processed in the open transaction."""
        wanted = self._wanted.setdefault(tp, Ranges())
        for offset in offsets:
            wanted.add(offset, offset)

    def claim_start(self, tp: InputPartition, topic: str, low: int) -> None:
        """Say where a partition begins; whoever is first settles it."""
        self._wanted.setdefault(tp, Ranges()).add(START, START)
        self._starts[tp] = low
        self._topics[tp] = topic

    def note(self, tp: InputPartition, first: int, last: int) -> None:
        """Nothing is to be done at these offsets: they hold no record. Stated with the next commit."""
        self._noted.setdefault(tp, Ranges()).add(first, last)

    def count_try(self, tp: InputPartition, offset: int, times: int) -> None:
        """State with the next commit that the sweep is about to try this offset for the `times`th time."""
        self._tries.setdefault(tp, {})[offset] = times

    def find_tries(self, tp: InputPartition, offset: int) -> int:
        """How often the sweep has tried an offset."""
        found, own = self._ledger.state(tp), self._own.get(tp)
        return max((state.tries.get(offset, 0) for state in (found, own) if state is not None), default=0)

    def end(self, tp: InputPartition) -> None:
        """The partition is gone for ever (`deleted_topics`): with the next commit nothing is stated of it any more."""
        self._gone.add(tp)

    @property
    def pending(self) -> bool:
        """Whether there is something to claim or to state that does not wait for records."""
        return bool(self._wanted or self._tries or self._gone)

    @property
    def noted(self) -> int:
        """How many ranges without records have not been stated yet."""
        return sum(map(len, self._noted.values()))

    def take_claim(self) -> Claim:
        """The claim of the transaction that begins now."""
        return Claim(self._slot, {tp: ranges.copy() for tp, ranges in self._wanted.items()})

    @property
    def wanted(self) -> Claims:
        return self._wanted

    def states(self) -> list[tuple[Partition, Offset | None]]:
        """What the transaction states at its end: a source offset for each input partition that it touches.

        The states of slots that are gone are taken over, and end in the same transaction.
        """
        count = self._slots()
        self._stated, ended = {}, []
        self._gone -= self._wanted.keys()
        for tp in self._gone:
            self._noted.pop(tp, None)
            ended += [(partition_key(tp, slot), None) for slot in self._ledger.slots(tp)]
        for tp in {**self._wanted, **self._noted, **self._tries}:
            gone = [slot for slot in self._ledger.slots(tp) if count and (slot is None or slot >= count)]
            self._stated[tp] = self._state(tp, gone)
            ended += [(partition_key(tp, slot), None) for slot in gone]
        return [*((partition_key(tp, self._slot), encode_state(state)) for tp, state in self._stated.items()), *ended]

    def _state(self, tp: InputPartition, gone: Sequence[int | None]) -> State:
        merged = self.find_committed(tp)
        last = self._own.get(tp) or self._ledger.slot_state(tp, self._slot)
        done = last.done.copy() if last is not None else Ranges()
        tries = dict(last.tries) if last is not None else {}
        for slot in gone:
            if (state := self._ledger.slot_state(tp, slot)) is not None:
                done.update(state.done)
                for offset, times in state.tries.items():
                    tries[offset] = max(times, tries.get(offset, 0))
        for more in (self._wanted.get(tp), self._noted.get(tp)):
            if more is not None:
                done.update(more)
                merged.done.update(more)
        low = max(merged.low, self._starts.get(tp, 0))
        low = merged.done.first_missing(low)
        done.drop_below(low)
        tries |= self._tries.get(tp, {})
        kept = {offset: times for offset, times in tries.items() if offset >= low and offset not in done}
        return State(merged.topic or self._topics.get(tp, ""), low, done, kept, self.cluster)

    def settle(self) -> None:
        """The transaction is committed."""
        self._own.update(self._stated)
        for tp in self._stated:
            self._noted.pop(tp, None)
        for tp in self._gone:
            self._own.pop(tp, None)
        self.forget()
