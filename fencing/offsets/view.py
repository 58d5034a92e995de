"""A worker's in-memory view of an offsets topic that it follows, like Kafka Connect's KafkaOffsetBackingStore.

Every task start needs one connector's offsets out of a topic that all share. The view reads the topic once, follows it,
and gives out offsets with the position up to which they hold (`OffsetsSnapshot`), so that a start only reads
the rest.

The view need not be current to be safe: it holds what was committed before the last stable offset, and the reader of a
snapshot reads the rest after its own init or fence.

It keeps the newest source offsets by connector, as bytes (`OffsetIndex`). Keys are not parsed if they have Kafka
Connect's form, which names the connector up to the second quotation mark.
"""

import logging
import threading
import time
from collections.abc import Mapping
from typing import Final

from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import FencingError, Retriable
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.kafka.consumer import PartitionReader
from ringfence.fencing.kafka.topic_admin import topic_identity
from ringfence.fencing.kafka.topic_offsets import OffsetKind, offsets_at
from ringfence.fencing.offsets.source_offsets import OffsetsSnapshot, connector_of

ENTRY_BYTES: Final = 160
"""The memory of an entry besides its key and value: two bytes objects and a slot in a dictionary, which may be half
empty. Measured: a million entries of 66 bytes take 182 MiB, and are counted as 216 MiB."""


class OffsetIndex:
    """Applies records in the order of each partition. Not thread-safe."""

    def __init__(self) -> None:
        self._connectors: dict[bytes, dict[bytes, bytes | None]] = {}
        self._sizes: dict[bytes, int] = {}
        self._dropped: set[bytes] = set()
        self.size = 0
        """Its approximate size in bytes."""

    def put(self, key: bytes | None, value: bytes | None) -> None:
        """Apply the next record."""
        if key is None:
            return
        until = key.find(b'",', 2) if key[:2] == b'["' else -1
        name = key[2:until] if until > 0 else b'"'
        if b'"' in name or b"\\" in name:
            connector = connector_of(key)
            if connector is None:
                return  # not a source offset: nobody looks for it
            name = connector.encode()
        if name in self._dropped:
            return
        entries = self._connectors.get(name)
        if entries is None:
            entries = self._connectors[name] = {}
        size_before = self.size
        # Removed first, so that the order is that of the last write: of two spellings of one source partition, the
        # later one counts.
        if key in entries:
            self.size -= len(entries.pop(key) or b"")
        else:
            self.size += len(key) + ENTRY_BYTES
        entries[key] = value
        self.size += len(value or b"")
        self._sizes[name] = self._sizes.get(name, 0) + self.size - size_before

    def drop_largest(self) -> str:
        """Drop the connector that needs the most memory, also what is put for it later. Return its name, for people."""
        name = max(self._sizes, key=self._sizes.__getitem__)
        self._dropped.add(name)
        del self._connectors[name]
        self.size -= self._sizes.pop(name)
        return name.decode(errors="replace")

    def entries(self, connector: ConnectorName) -> list[tuple[bytes, bytes | None]] | None:
        """Return the entries of one connector, with tombstones, the latest written last; None if it was dropped."""
        name = connector.encode()
        return None if name in self._dropped else list(self._connectors.get(name, {}).items())

    def __len__(self) -> int:
        return sum(len(entries) for entries in self._connectors.values())


log = logging.getLogger(__name__)

_AT_ONCE: Final = 5000
_GATHER_MS: Final = 250
"""So long it may be behind: a start then reads a few records more."""
_LOOK_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 1.0
_STALL_SECONDS: Final = 30.0
_KEPT: Final = 0.9
"""How much of its maximum size is left once it has dropped something: else each record would drop another one."""
_ASLEEP_SECONDS: Final = 3600.0
"""A process that was stopped for this long may have missed tombstones that compaction has removed."""


class OffsetsView:
    """`run` follows the topic on its own thread; any thread may call the rest."""

    def __init__(self, connection: Connection, topic: str, max_bytes: int) -> None:
        """max_bytes: its approximate maximum size. Above it the largest connectors are not kept, and their starts read
        the topic themselves; others notice nothing.
        """
        self._connection = connection
        self._topic = topic
        self._max_bytes = max_bytes
        self._condition = threading.Condition()
        self._index = OffsetIndex()
        self._topic_id = ""
        self._positions: dict[int, int] = {}
        self._ends: Mapping[int, int] = {}
        self._whole = False
        self._moved_at = time.monotonic()

    @property
    def whole(self) -> bool:
        """Whether it has reached the end of the topic once."""
        return self._whole

    @property
    def waiting(self) -> bool:
        """Whether a start should wait: the view is being read, and makes progress."""
        return not self._whole and time.monotonic() - self._moved_at < _STALL_SECONDS

    def describe_progress(self) -> str:
        """Return its progress as a message, for people who wait."""
        with self._condition:
            read = sum(self._positions.values())
            return f"{read:,} of {max(read, sum(self._ends.values())):,} records of topic {self._topic}"

    def wait(self) -> None:
        """Wait until it is whole, or has made no progress for 30 s."""
        with self._condition:
            while self.waiting:
                self._condition.wait(0.5)

    def snapshot(self, connector: ConnectorName) -> OffsetsSnapshot | None:
        """Return what is known of a connector; None before the topic is read, or if the connector is too large."""
        with self._condition:
            entries = self._index.entries(connector) if self._topic_id else None
            if entries is None:
                return None
            return OffsetsSnapshot(connector, self._topic_id, dict(self._positions), entries)

    def run(self, stop: threading.Event) -> None:
        """Run until `stop`. Errors are logged, and the topic is read again."""
        while not stop.is_set():
            try:
                self._read(stop)
            except Retriable as error:
                log.info("The view of topic %s waits: %s", self._topic, error)
                stop.wait(_AGAIN_SECONDS)
            except FencingError:
                log.exception("Topic %s cannot be followed; tasks read their offsets themselves", self._topic)
                stop.wait(_LOOK_SECONDS)

    def _read(self, stop: threading.Event) -> None:
        """Read from the beginning, and follow until the topic must be read again."""
        began = time.monotonic()
        topic_id, partitions = topic_identity(self._connection, self._topic, Deadline.after(30))
        ends = offsets_at(self._connection, self._topic, partitions, OffsetKind.STABLE, Deadline.after(30))
        start = dict.fromkeys(partitions, 0)
        with self._condition:
            self._index, self._topic_id, self._positions, self._ends = OffsetIndex(), topic_id, start, ends
            self._whole, self._moved_at = False, began
        reader = PartitionReader(self._connection, self._topic, start, gather_ms=_GATHER_MS)
        try:
            look_at, awake_at = began + _LOOK_SECONDS, time.time()
            while not stop.is_set():
                self._take(reader)
                if not self._whole and all(reader.positions[p] >= end for p, end in ends.items()):
                    self._finish(time.monotonic() - began)
                if time.time() - awake_at > _ASLEEP_SECONDS:
                    log.info("The view of topic %s is built again: this process was suspended", self._topic)
                    return
                awake_at = time.time()
                if time.monotonic() >= look_at:
                    if self._is_outdated(topic_id, partitions):
                        return
                    look_at = time.monotonic() + _LOOK_SECONDS
        finally:
            reader.close()

    def _take(self, reader: PartitionReader) -> None:
        messages = reader.messages(2 * _GATHER_MS / 1000, _AT_ONCE)
        with self._condition:
            put = self._index.put
            for message in messages:
                put(message.key(), message.value())
            if reader.positions != self._positions:
                self._positions = dict(reader.positions)
                self._moved_at = time.monotonic()
            if self._index.size > self._max_bytes:
                self._drop_largest()

    def _finish(self, seconds: float) -> None:
        with self._condition:
            self._whole = True
            self._condition.notify_all()
            log.info(
                "Topic %s is read: %d records, %d source partitions, about %d MiB, in %.1f s",
                self._topic,
                sum(self._positions.values()),
                len(self._index),
                self._index.size >> 20,
                seconds,
            )

    def _drop_largest(self) -> None:
        dropped: list[str] = []
        while self._index.size > self._max_bytes * _KEPT:
            dropped.append(self._index.drop_largest())
        log.warning(
            "Topic %s holds more source offsets than offsets.view.max.bytes (%d). Those of these connectors are not "
            "kept, and each of their tasks that starts reads the whole topic: %s. Raise the setting, or give large "
            "connectors a topic of their own (offsets.storage.topic)",
            self._topic,
            self._max_bytes,
            ", ".join(dropped),
        )

    def _is_outdated(self, topic_id: str, partitions: list[int]) -> bool:
        """Return whether the topic was replaced, truncated, or given more partitions."""
        try:
            now, numbers = topic_identity(self._connection, self._topic, Deadline.after(5))
            ends = offsets_at(self._connection, self._topic, numbers, OffsetKind.END, Deadline.after(5))
        except Retriable:
            return False  # the broker or the topic is missing: a snapshot names the topic it is of
        with self._condition:
            self._ends = ends if not self._whole else self._ends
            shorter = {p: position for p, position in self._positions.items() if position > ends.get(p, -1)}
        if now != topic_id:
            reason = "was created again"
        elif numbers != partitions:
            reason = f"has {len(numbers)} partitions, not {len(partitions)}"
        elif shorter:
            p, position = next(iter(shorter.items()))
            reason = f"was truncated: partition {p} ends at offset {ends.get(p, -1)}, and was read up to {position}"
        else:
            return False
        log.warning("Topic %s %s; it is read again", self._topic, reason)
        return True
