"""What `__share_group_state` tells, read in its order: the state of every share-partition, now and at each step. Pure.

The share coordinator's part is here, too: what it writes when a leader tells it of a change, and when it takes a
snapshot. `StateTable` folds a whole topic; `replay` is the timeline of one share-partition.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from ringfence.fencing.share.share_partition.batches import Batches, RecordState, fill, merge, prune
from ringfence.fencing.share.share_partition.state_machine import Change, SharePartition
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

    start_offset: -1 until its leader has read it for the first time (`share.auto.offset.reset` says where it begins).
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
        """What a leader makes of it: the start goes past what is over, gaps are available."""
        return SharePartition.recover(self.start_offset, self.batches)

    @property
    def end_offset(self) -> int:
        """One past the last offset of which something is said: the SPEO, as far as it is persisted."""
        return max(self.start_offset, self.batches[-1].last + 1 if self.batches else 0)

    def strip(self, until: int | None = None) -> Batches:
        """Every offset from the start to the end (or `until`, not included) in its state."""
        if self.start_offset < 0:
            return ()
        end = max(self.end_offset, self.start_offset if until is None else until)
        return fill(self.batches, self.start_offset, end - 1)

    def find_archived(self, delivery_limit: int) -> Batches:
        """What was archived as it was delivered too often; a rejected record of the last delivery looks the same."""
        return tuple(
            one for one in self.batches if one.state is RecordState.ARCHIVED and one.delivery_count >= delivery_limit
        )


def apply(state: PersistedState | None, record: StateRecord | None) -> PersistedState | None:
    """The state behind a record. None: there is none, or it was deleted."""
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
    """What the share coordinator writes of a leader's change: an update, or a snapshot after `limit` of them."""
    update = ShareUpdate(
        state.snapshot_epoch,
        leader_epoch,
        change.start_offset,
        change.delivery_complete_count,
        prune(merge((), change.written), change.start_offset),
    )
    if state.updates < limit:
        return update
    merged = apply(state, update)
    assert merged is not None
    return ShareSnapshot(
        state.snapshot_epoch + 1,
        state.state_epoch,
        leader_epoch,
        merged.start_offset,
        merged.delivery_complete_count,
        merged.batches,
        now_ms,
        now_ms,
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the topic at its place. record: None for a tombstone."""

    offset: int
    timestamp_ms: int
    key: StateKey
    record: StateRecord | None

    @property
    def changed(self) -> Batches:
        """The ranges that it is about; all of them, where it is a snapshot."""
        return () if self.record is None else self.record.batches


def read(offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> Entry | None:
    """None for a record of a kind that is not known. Raises ValueError for one that cannot be read."""
    decoded = None if key is None else decode(key, value)
    return None if decoded is None else Entry(offset, timestamp_ms, *decoded)


def replay(entries: Iterable[Entry]) -> Iterator[tuple[Entry, PersistedState | None]]:
    """The timeline of one share-partition: each of its records with the state behind it."""
    state: PersistedState | None = None
    for entry in entries:
        state = apply(state, entry.record)
        yield entry, state


@dataclass(slots=True)
class StateTable:
    """All share-partitions of the records that it was given; for each partition of the topic, in their order."""

    states: dict[StateKey, PersistedState] = field(default_factory=dict)

    def take(self, entry: Entry) -> PersistedState | None:
        """The next record. Returns the state behind it."""
        state = apply(self.states.get(entry.key), entry.record)
        if state is None:
            self.states.pop(entry.key, None)
        else:
            self.states[entry.key] = state
        return state

    def of_group(self, group_id: str) -> dict[StateKey, PersistedState]:
        """The share-partitions of one group."""
        return {key: state for key, state in self.states.items() if key.group_id == group_id}


def find_first_needed(entries: Iterable[Entry]) -> int | None:
    """The first offset of one partition of the topic that is still needed: all before it may be removed.

    It is the earliest among the newest snapshots of every share-partition that is not deleted (the cleaning that the
    brokers do with DeleteRecords). None: nothing is needed.
    """
    newest: dict[StateKey, int] = {}
    for entry in entries:
        if entry.record is None:
            newest.pop(entry.key, None)
        elif isinstance(entry.record, ShareSnapshot) or entry.key not in newest:
            newest[entry.key] = entry.offset
    return min(newest.values(), default=None)
