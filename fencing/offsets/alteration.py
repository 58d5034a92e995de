"""Source offsets that the leader writes outside of any task: altered by a user, or migrated to another topic in a
round.

As in Kafka Connect, they are written by a transactional producer with the id of the connector's task 0. 1: `init`
fences whoever wrote with that id before. 2: the config topic, read to its end, says whether this may still be done. 3:
one transaction. 4: another `init`, which returns once the markers of that transaction are written; tasks with other ids
must read it, and they do not wait for markers (`fencing.topics.topic_log`). A leader that froze between 2 and 3 is
fenced by the next round, which always fences that id.
"""

import logging
from collections.abc import Callable, Sequence

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Abortable, Fenced, FencingError, Retriable
from ringfence.fencing.ids import ConnectorName, TaskId, task_transactional_id
from ringfence.fencing.offsets.ledger_keys import log_partition_of
from ringfence.fencing.offsets.source_offsets import SourceOffsets, canonical, encode_value
from ringfence.fencing.offsets.stores import OffsetStores
from ringfence.fencing.transactions.client import TransactionalClient

log = logging.getLogger(__name__)

Records = Sequence[tuple[bytes, bytes | None]]


def alteration_transactional_id(group_id: str, connector: ConnectorName) -> str:
    """Return the transactional id with which the leader writes a connector's offsets."""
    return task_transactional_id(group_id, TaskId(connector, 0))


def write(
    new_producer: Callable[[], TransactionalClient], topic: str, decide: Callable[[], Records], deadline: Deadline
) -> int:
    """Write what `decide` returns after the init, in one transaction. Returns the number of records.

    `decide` reads the config topic, and raises `Conflict` if the offsets may no longer be written. It is called again
    after every unknown outcome, so its result must be safe to write twice.
    """
    while True:
        producer = new_producer()
        try:
            producer.init(deadline)  # 1
            records = decide()  # 2
            if records:
                _transaction(producer, topic, records, deadline)  # 3
                _complete(new_producer(), deadline)  # 4
            return len(records)
        except (Abortable, Retriable, Fenced) as error:
            if deadline.expired:
                raise
            log.info("Writing source offsets to %s starts over: %s", topic, error)
        finally:
            producer.close()


def _transaction(producer: TransactionalClient, topic: str, records: Records, deadline: Deadline) -> None:
    producer.begin()
    try:
        for key, value in records:
            producer.produce(topic, value, key, log_partition_of(key))
        producer.commit(deadline)
    except FencingError:
        if not producer.spent:
            producer.abort(Deadline.after(3))
        raise


def _complete(successor: TransactionalClient, deadline: Deadline) -> None:
    try:
        successor.init(deadline)
    finally:
        successor.close()


def has_moved(old: OffsetStores, new: OffsetStores) -> bool:
    """Return whether a connector's offsets must be migrated from one effective topic to the other."""
    before, after = old.effective, new.effective
    return (before.name, before.reading.bootstrap) != (after.name, after.reading.bootstrap)


def records_to_migrate(old: SourceOffsets, new: SourceOffsets) -> Records:
    """Return the records that give the new topic the merged view of the old one: a change of topic moves no offset.

    So an older offset that the new topic still holds is replaced, or deleted if there is none now.
    """
    own = {canonical(offset.partition): offset for offset in new.own()}
    partitions = {canonical(offset.partition): offset.partition for offset in (*new.all(), *old.all())}
    records = []
    for name, partition in partitions.items():
        expected = old.offset(partition)
        entry = own.get(name)
        as_it_is = entry.offset if entry else None
        if expected != as_it_is or (entry is None and new.offset(partition) != expected):
            records.append((new.key_of(partition), encode_value(expected)))
    return records
