"""Which source partitions are a ledger's (`ringfence.fencing.share`), and where in the offsets topic they are. Pure.

All of a ledger is in partition 0 of its topic, whatever its keys: claims on one offset must stand in one log, in one
order. The first partition is there in every topic, and stays the first when the topic gets more.
"""

import json
from typing import Final, NamedTuple

from ringfence.fencing.offsets.source_offsets import Partition

LEDGER_PARTITION: Final = 0

TOPIC_ID: Final = "topic_id"
PARTITION: Final = "partition"
SLOT: Final = "slot"


class InputPartition(NamedTuple):
    """A topic that was deleted and created again has another id, and starts over."""

    topic_id: str
    partition: int


def partition_key(tp: InputPartition, slot: int | None = None) -> Partition:
    """The source partition of one slot's state, or of the whole."""
    found: dict[str, object] = {TOPIC_ID: tp.topic_id, PARTITION: tp.partition}
    return found if slot is None else {**found, SLOT: slot}


def parse_partition(partition: Partition) -> tuple[InputPartition, int | None] | None:
    """Input partition and slot; None for a source partition that is none of a ledger's."""
    topic, number, slot = partition.get(TOPIC_ID), partition.get(PARTITION), partition.get(SLOT)
    if not isinstance(topic, str) or not is_number(number) or not (slot is None or is_number(slot)):
        return None
    if len(partition) != (2 if slot is None else 3):
        return None
    return InputPartition(topic, int(str(number))), None if slot is None else int(str(slot))


def log_partition_of(key: bytes) -> int:
    """Where a source offset of this key is written: partition 0 for a ledger's, else -1, the partitioner's choice."""
    if TOPIC_ID.encode() not in key:
        return -1
    try:
        loaded = json.loads(key)
    except ValueError:
        return -1
    if not isinstance(loaded, list) or len(loaded) != 2 or not isinstance(loaded[1], dict):
        return -1
    return -1 if parse_partition(loaded[1]) is None else LEDGER_PARTITION


def is_number(value: object) -> bool:
    """An integer, not negative."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
