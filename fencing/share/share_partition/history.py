"""Folds `__share_group_state`, read in order, to the state of every share-partition, now and after each record. Pure.

It also has the share coordinator's part: what it writes when a leader sends a change, and when it takes a snapshot.
`StateTable` folds a whole topic; `replay` is the timeline of one share-partition.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from ringfence.fencing.share.share_partition.state_machine import Change, SharePartition
from ringfence.fencing.share.share_partition.state_ranges import Batches, RecordState, fill, merge, prune
from ringfence.fencing.share.share_partition.state_topic import (
    ShareSnapshot,
    ShareUpdate,
    StateKey,
    StateRecord,
    decode,
)

UPDATES_PER_SNAPSHOT: Final = 500
"""The brokers' share.coordinator.snapshot.update.records.per.snapshot, by default."""


@dataclass(frozen=True, slots=True)
class PersistedState:
    """A share-partition as the share coordinator knows it.

    start_offset: -1 until its leader has read it for the first time (`share.auto.offset.reset` decides where to start).
    updates: since the newest snapshot.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = -1
    batches: Batches = ()
    updates: int = 0

    @property
    def partition(self) -> SharePartition:
        """Return what a leader recovers from it: the start moves past finished records, and gaps are available."""
        return SharePartition.recover(self.start_offset, self.batches)

    @property
    def end_offset(self) -> int:
        """One past the last offset with a state: the SPEO, as far as it is persisted."""
        return max(self.start_offset, self.batches[-1].last + 1 if self.batches else 0)

    def strip(self, until: int | None = None) -> Batches:
        """Return the state of every offset from the start to the end (or `until`, exclusive)."""
        if self.start_offset < 0:
            return ()
        end = max(self.end_offset, self.start_offset if until is None else until)
        return fill(self.batches, self.start_offset, end - 1)

    def find_archived(self, delivery_limit: int) -> Batches:
        """Return what was archived after too many deliveries. A record rejected in its last delivery looks the same."""
        return tuple(
            one for one in self.batches if one.state is RecordState.ARCHIVED and one.delivery_count >= delivery_limit
        )


def apply(state: PersistedState | None, record: StateRecord | None) -> PersistedState | None:
    """Return the state after a record. None: there is none, or it was deleted."""
    if record is None:
        return None
    if isinstance(record, ShareSnapshot):
        return PersistedState(
            record.snapshot_epoch,
            record.state_epoch,
            record.leader_epoch,
            record.start_offset,
            record.delivery_complete_count,
            merge((), record.batches),
        )
    if state is None:  # its snapshot is gone already
        state = PersistedState(record.snapshot_epoch, 0, record.leader_epoch, max(0, record.start_offset))
    start = state.start_offset if record.start_offset == -1 else record.start_offset
    return replace(
        state,
        leader_epoch=state.leader_epoch if record.leader_epoch == -1 else record.leader_epoch,
        start_offset=start,
        delivery_complete_count=record.delivery_complete_count,
        batches=prune(merge(state.batches, record.batches), start),
        updates=state.updates + 1,
    )


def write(
    state: PersistedState, change: Change, leader_epoch: int, now_ms: int = -1, limit: int = UPDATES_PER_SNAPSHOT
) -> StateRecord:
    """Return what the share coordinator writes for a leader's change: an update, or a snapshot after `limit`."""
    update = ShareUpdate(
        state.snapshot_epoch,
        leader_epoch,
        change.start_offset,
        change.delivery_complete_count,
        prune(merge((), change.writes), change.start_offset),
    )
    if state.updates < limit:
        return update
    next_state = apply(state, update)
    assert next_state is not None
    return ShareSnapshot(
        state.snapshot_epoch + 1,
        state.state_epoch,
        leader_epoch,
        next_state.start_offset,
        next_state.delivery_complete_count,
        next_state.batches,
        now_ms,
        now_ms,
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the topic, with its offset. record: None for a tombstone."""

    offset: int
    timestamp_ms: int
    key: StateKey
    record: StateRecord | None

    @property
    def batches(self) -> Batches:
        """The ranges that it has; for a snapshot, all of them."""
        return () if self.record is None else self.record.batches


def read(offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> Entry | None:
    """Parse a record; None for an unknown kind. Raises ValueError for one that cannot be read."""
    pair = None if key is None else decode(key, value)
    return None if pair is None else Entry(offset, timestamp_ms, *pair)


def replay(entries: Iterable[Entry]) -> Iterator[tuple[Entry, PersistedState | None]]:
    """Yield the timeline of one share-partition: each of its records with the state after it."""
    state: PersistedState | None = None
    for entry in entries:
        state = apply(state, entry.record)
        yield entry, state


@dataclass(slots=True)
class StateTable:
    """The states of all share-partitions. Give it the records of each partition of the topic in order."""

    states: dict[StateKey, PersistedState] = field(default_factory=dict)

    def take(self, entry: Entry) -> PersistedState | None:
        """Apply the next record. Return the state after it."""
        state = apply(self.states.get(entry.key), entry.record)
        if state is None:
            self.states.pop(entry.key, None)
        else:
            self.states[entry.key] = state
        return state

    def of_group(self, group_id: str) -> dict[StateKey, PersistedState]:
        """Return the share-partitions of one group."""
        return {key: state for key, state in self.states.items() if key.group_id == group_id}


def find_first_needed(entries: Iterable[Entry]) -> int | None:
    """Return the first offset of a partition of the topic that is still needed; earlier records may be removed.

    It is the earliest of the newest snapshots of all share-partitions that are not deleted (brokers delete what is
    before it with DeleteRecords). None: nothing is needed.
    """
    newest: dict[StateKey, int] = {}
    for entry in entries:
        if entry.record is None:
            newest.pop(entry.key, None)
        elif isinstance(entry.record, ShareSnapshot) or entry.key not in newest:
            newest[entry.key] = entry.offset
    return min(newest.values(), default=None)
