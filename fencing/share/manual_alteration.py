"""Shows the ledger to people, with one offset per partition, and converts their changes. Pure.

One offset combines the states of all slots. If a user changes it, the states of the slots must be deleted, since they
would still count. Offsets are only altered while the connector is STOPPED and its fencing round is over, so no task can
write a state after that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.ledger_keys import parse_partition, partition_key
from ringfence.fencing.offsets.source_offsets import Offset, Partition, SourceOffset, encode_key, encode_value
from ringfence.fencing.share.ledger import Ledger
from ringfence.fencing.share.ledger_records import encode_state

Changes = Sequence[tuple[Partition, Offset | None]]


def merge(connector: ConnectorName, offsets: Iterable[SourceOffset]) -> list[SourceOffset]:
    """Return the source offsets, with one for all slots' states of a partition. Others are unchanged."""
    ledger, others = Ledger(connector), []
    for source_offset in offsets:
        if parse_partition(source_offset.partition) is None:
            others.append(source_offset)
        else:
            ledger.begin([(encode_key(connector, source_offset.partition), encode_value(source_offset.offset))])
    states = []
    for tp in ledger.partitions():
        state = ledger.state(tp)
        if state is not None:
            key = partition_key(tp)
            states.append(SourceOffset(key, encode_state(replace(state, cluster="")), b""))
    return [*others, *states]


def expand(changes: Changes, source_offsets: Iterable[SourceOffset]) -> Changes:
    """Return the changes, preceded by tombstones for the slots' states of the partitions that they change."""
    partitions = {place[0] for partition, _ in changes if (place := parse_partition(partition)) and place[1] is None}
    targets = {place for partition, _ in changes if (place := parse_partition(partition))}
    tombstones: list[tuple[Partition, Offset | None]] = []
    for source_offset in source_offsets:
        place = parse_partition(source_offset.partition)
        if place is not None and place[0] in partitions and place not in targets and source_offset.offset is not None:
            tombstones.append((source_offset.partition, None))
    return [*tombstones, *changes]
