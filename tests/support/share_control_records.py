"""SHARE_CHECKPOINT and SHARE_DELTA: a share-partition's state in its own log, as in the first text of the KIP. Pure.

A checkpoint has the whole state. A delta has the ranges that changed, and points back to the previous control record
of the same checkpoint epoch. To recover, follow the chain from the newest record back to the checkpoint, then apply the
deltas. (Kafka 4.3 keeps the same data in `__share_group_state`: `fencing/share/share_partition/state_topic.py`.)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ringfence.fencing.share.share_partition.state_machine import Batch, Batches, Change, SharePartition, overlay

SHARE_CHECKPOINT: Final = 5
SHARE_DELTA: Final = 6
_EPOCHS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ShareCheckpoint:
    """The whole state. start_offset: SPSO. end_offset: SPEO, without first deliveries that have not ended."""

    group_id: str
    checkpoint_epoch: int
    start_offset: int
    end_offset: int
    states: Batches = ()


@dataclass(frozen=True, slots=True)
class ShareDelta:
    """The ranges that changed. back_offset: of the control record before it."""

    group_id: str
    checkpoint_epoch: int
    back_offset: int
    states: Batches


ControlRecord = ShareCheckpoint | ShareDelta


class BrokenChain(ValueError):
    """The control records do not lead back to a checkpoint."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """The leader's memory of what it has written.

    back_offset: of its newest control record. end: everything before it has been written.
    """

    group_id: str
    checkpoint_epoch: int = 0
    back_offset: int = -1
    end: int = 0

    def checkpoint(self, partition: SharePartition, offset: int) -> tuple["Recorder", ShareCheckpoint]:
        """Return the checkpoint that is written at this offset of the log, and begins a new epoch."""
        epoch = (self.checkpoint_epoch + 1) % _EPOCHS  # a uint16
        states = _drop_first_deliveries(partition.fold())
        end = states[-1].last + 1 if states else partition.start
        record = ShareCheckpoint(self.group_id, epoch, partition.start, end, states)
        return Recorder(self.group_id, epoch, offset, end), record

    def delta(self, change: Change, offset: int) -> tuple["Recorder", ShareDelta]:
        """Return a delta, written at this offset, with everything before it that was not written yet."""
        states = change.writes
        before = [one for one in states if one.last >= self.end]
        if before:
            states = overlay(change.partition.missing(self.end, before[-1].last), states)
        record = ShareDelta(self.group_id, self.checkpoint_epoch, self.back_offset, states)
        end = max([self.end, *(one.last + 1 for one in states)])
        return replace(self, back_offset=offset, end=end), record


def recover(log: Mapping[int, ControlRecord], newest: int, delivery_limit: int = 5) -> SharePartition:
    """Recover the state from the control record at offset `newest` backwards. Raises `BrokenChain`."""
    deltas: list[ShareDelta] = []
    at = newest
    while True:
        record = log.get(at)
        if record is None:
            raise BrokenChain(f"There is no control record at offset {at}")
        if deltas and (record.checkpoint_epoch, record.group_id) != (deltas[-1].checkpoint_epoch, deltas[-1].group_id):
            raise BrokenChain(f"The record at offset {at} is of checkpoint epoch {record.checkpoint_epoch}")
        if isinstance(record, ShareCheckpoint):
            break
        if record.back_offset >= at:
            raise BrokenChain(f"The record at offset {at} points ahead, to {record.back_offset}")
        deltas.append(record)
        at = record.back_offset
    states = record.states
    for delta in reversed(deltas):
        states = overlay(states, delta.states)
    return SharePartition.recover(record.start_offset, states, delivery_limit)


def find_checkpoint(log: Mapping[int, ControlRecord], group_id: str) -> int | None:
    """Return the share checkpoint offset (SCO) of a group: that of its newest checkpoint."""
    offsets = (offset for offset, one in log.items() if isinstance(one, ShareCheckpoint) and one.group_id == group_id)
    return max(offsets, default=None)


def find_cleanable(log: Mapping[int, ControlRecord], group_ids: Iterable[str]) -> list[int]:
    """Return the control records that the log cleaner may remove: all before the earliest share offset (ESO).

    group_ids: all groups that read the partition. If one has no checkpoint yet, nothing may be removed.
    """
    checkpoints = [find_checkpoint(log, group_id) for group_id in group_ids]
    if not checkpoints or None in checkpoints:
        return []
    earliest = min(offset for offset in checkpoints if offset is not None)
    return sorted(offset for offset in log if offset < earliest)


def _drop_first_deliveries(states: Batches) -> Batches:
    """Drop trailing first deliveries: there is nothing to persist about them, and they may be delivered again."""
    batches: list[Batch] = list(states)
    while batches and batches[-1] == Batch(batches[-1].first, batches[-1].last):
        batches.pop()
    return tuple(batches)
