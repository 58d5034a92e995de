"""The KIP's table of operations, "SHARE_DELTA", on a real share-partition and beside it on the pure one."""

import time

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ringfence.fencing.clock import Deadline
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.share_groups import alter_share_group
from ringfence.fencing.kafka.topic_admin import TopicSpec, create_topics
from ringfence.fencing.share.share_partition import state_topic
from ringfence.fencing.share.share_partition.state_machine import (
    Acknowledgement,
    Answer,
    Batch,
    Change,
    RecordState,
    SharePartition,
    merge,
)
from ringfence.fencing.share.share_partition.state_topic import Entry, ShareUpdate, StateTable
from tests.guarantees.share_partitions import StateReader, strip_times
from tests.support.raw_share import RENEW, RawShareMember
from tests.support.waiting import eventually

AVAILABLE, ACKNOWLEDGED = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED
ACCEPT, RELEASE = Acknowledgement.ACCEPT, Acknowledgement.RELEASE


class _Table:
    """The share-partition that begins at offset 100, members A and B, and the module's."""

    def __init__(self, connection: Connection, name: str, lock_ms: int) -> None:
        topic, group = f"{name}-in", f"{name}-group"
        create_topics(connection, [TopicSpec(topic)], Deadline.after(30))
        pen = Producer(connection.librdkafka())
        for _ in range(121):
            pen.produce(topic, b"x")
        pen.flush(30)
        client = AdminClient(connection.librdkafka())  # type: ignore[arg-type]
        for deleted in client.delete_records([TopicPartition(topic, 0, 100)]).values():
            deleted.result(30)
        settings = {
            "auto.offset.reset": "earliest",
            "session.timeout.ms": "60000",
            "record.lock.duration.ms": str(lock_ms),
        }
        alter_share_group(connection, group, settings, Deadline.after(30))
        self.members = {one: RawShareMember(connection, group, topic) for one in "AB"}
        self.model = SharePartition.begin(100, lock_s=lock_ms / 1000)
        self.states = StateTable()
        self._connection, self._group = connection, group
        self._reader: StateReader | None = None

    def fetch(self, who: str, first: int, last: int, count: int) -> None:
        found = eventually(lambda: self.members[who].fetch(last - first + 1)[0], 60, f"offsets {first} to {last}")
        assert found == [(first, last, count)]
        self.model = self.model.acquire(first, last, who)
        if self._reader is None:
            self._reader = StateReader(self._connection, self._group)
            self._read()

    def _read(self) -> list[Entry]:
        assert self._reader is not None
        found = self._reader.read()
        for one in found:
            self.states.take(one)
        return found

    def acknowledge(self, who: str, kind: Acknowledgement, first: int, last: int, start: int, *said: Batch) -> None:
        """start, said: what is persisted of it."""
        assert self.members[who].acknowledge([(first, last, kind)]) == 0
        self.expect(self.model.acknowledge(who, [Answer(first, last, kind)]), start, *said)

    def renew(self, who: str, first: int, last: int) -> None:
        assert self.members[who].acknowledge([(first, last, RENEW)]) == 0
        self.model = self.model.renew(who, first, last, 0.0)

    def expect(self, change: Change, start: int, *said: Batch) -> None:
        (state,) = self.states.states.values()
        written = state_topic.write(state, change, state.leader_epoch)
        found: list[Entry] = []

        def arrived() -> bool:
            found.extend(self._read())
            return bool(found)

        eventually(arrived, 30, f"a record that says {said}")
        assert isinstance(written, ShareUpdate)
        assert (written.start_offset, written.batches) == (start, said)
        assert [strip_times(one.record) for one in found] == [written]
        self.model = change.partition

    def expire(self, first: int, last: int, start: int, said: Batch) -> None:
        """Only these, which were not renewed. Where a range was divided, each offset is written for itself."""
        change = self.model.acknowledge("A", [Answer(first, last, RELEASE)])
        found: list[Entry] = []

        def arrived() -> bool:
            found.extend(self._read())
            return merge((), [batch for one in found for batch in one.batches]) == (said,)

        eventually(arrived, 30, lambda: f"{said}, not {found}")
        assert change.writes == (said,)
        assert {one.record.start_offset for one in found if one.record is not None} == {start}
        self.model = change.partition

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        for one in self.members.values():
            one.close()


def run_the_table(connection: Connection, name: str, lock_ms: int) -> None:
    """Each line of it. Two differences of 4.3: first deliveries are not written, and the start is one write behind."""
    table = _Table(connection, name, lock_ms)
    try:
        table.fetch("A", 100, 109, 1)
        table.acknowledge("A", ACCEPT, 100, 109, 100, Batch(100, 109, ACKNOWLEDGED, 1))
        table.fetch("A", 110, 119, 1)
        locked = time.monotonic()
        table.acknowledge("A", RELEASE, 110, 110, 110, Batch(110, 110, AVAILABLE, 1))
        table.acknowledge("A", ACCEPT, 119, 119, 110, Batch(119, 119, ACKNOWLEDGED, 1))
        # Locked so much later that 111 and 112 expire long before them.
        time.sleep(max(0.0, locked + lock_ms / 2000 - time.monotonic()))
        table.fetch("B", 110, 110, 2)
        table.fetch("B", 120, 120, 1)
        table.renew("A", 113, 118)
        table.expire(111, 112, 110, Batch(111, 112, AVAILABLE, 1))
        table.acknowledge("A", ACCEPT, 113, 118, 110, Batch(113, 118, ACKNOWLEDGED, 1))
        table.fetch("A", 111, 112, 2)
        table.acknowledge("B", ACCEPT, 110, 110, 110, Batch(110, 110, ACKNOWLEDGED, 2))
        table.acknowledge("A", ACCEPT, 111, 112, 111, Batch(111, 112, ACKNOWLEDGED, 2))
        assert (table.model.start, table.model.end) == (120, 121)
    finally:
        table.close()
