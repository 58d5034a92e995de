"""Which source partitions belong to a ledger (`ringfence.fencing.share`), and where the offsets topic has them. Pure.

A ledger is wholly in partition 0 of its topic, whatever its keys are: claims on one offset must be in one log, in one
order. Every topic has partition 0, and keeps it when partitions are added.
"""

import json
from typing import Final, NamedTuple

from ringfence.fencing.offsets.source_offsets import Partition

LEDGER_PARTITION: Final = 0

TOPIC_ID: Final = "topic_id"
PARTITION: Final = "partition"
SLOT: Final = "slot"


class InputPartition(NamedTuple):
    """A partition of the input. A topic that was deleted and created again has another id, and starts over."""

    topic_id: str
    partition: int


def partition_key(tp: InputPartition, slot: int | None = None) -> Partition:
    """Return the source partition of one slot's state, or of the whole ledger's."""
    fields: dict[str, object] = {TOPIC_ID: tp.topic_id, PARTITION: tp.partition}
    return fields if slot is None else {**fields, SLOT: slot}


def parse_partition(partition: Partition) -> tuple[InputPartition, int | None] | None:
    """Return input partition and slot; None for a source partition that does not belong to a ledger."""
    topic, number, slot = partition.get(TOPIC_ID), partition.get(PARTITION), partition.get(SLOT)
    if not isinstance(topic, str) or not is_number(number) or not (slot is None or is_number(slot)):
        return None
    if len(partition) != (2 if slot is None else 3):
        return None
    return InputPartition(topic, int(str(number))), None if slot is None else int(str(slot))


def log_partition_of(key: bytes) -> int:
    """Return the partition for a source offset with this key: 0 for a ledger's, else -1, the partitioner's choice."""
    if TOPIC_ID.encode() not in key:
        return -1
    try:
        parts = json.loads(key)
    except ValueError:
        return -1
    if not isinstance(parts, list) or len(parts) != 2 or not isinstance(parts[1], dict):
        return -1
    return -1 if parse_partition(parts[1]) is None else LEDGER_PARTITION


def is_number(value: object) -> bool:
    """Return whether the value is a non-negative integer."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
