"""The offsets topic: key `["<connector>", {source partition}]`, value `{source offset}`, JSON (Kafka Connect's format).

Keys are parsed before they are compared, because another writer may have used other spacing or order. A partition is
written again with the same key bytes as before, or compaction would keep two values of it.

All connectors share a topic. So a reader parses only what its own connector has written, and no more of a key than its
name to see whose it is.

A worker follows the topic once for all its connectors (`fencing.offsets.view`). An attempt gets its connector's part
with its assignment and reads on from `positions` after its own init, so it misses nothing (invariant 6): all that is
before the positions was before the last stable offset when the snapshot was taken, so it was decided.
"""

import base64
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from ringfence.connectors.sdk.values.nesting import DEEPEST, is_deep
from ringfence.fencing.clock import Deadline
from ringfence.fencing.errors import Invalid
from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.kafka.connection import Connection
from ringfence.fencing.offsets.record_counts import RecordCounts, decode

if TYPE_CHECKING:
    from ringfence.fencing.kafka.consumer import LogRecord

MOST_BYTES: Final = 64 * 1024 * 1024
"""A larger snapshot is not sent: the attempt reads the topic."""

_SIZES: Final = struct.Struct(">ii")
Entries = Sequence[tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True)
class OffsetsSnapshot:
    """`entries`: keys and newest values as the topic holds them, with tombstones, the latest written last.

    positions: the next offset of each partition, at most the last stable one; a partition without one is read from its
    beginning.
    """

    connector: ConnectorName
    topic_id: str
    positions: Mapping[int, int]
    entries: Entries = field(repr=False)

    def fits(self, topic_id: str, ends: Mapping[int, int]) -> bool:
        """Return whether it was taken of this topic, and the topic has not been truncated since."""
        return topic_id == self.topic_id and all(position <= ends.get(p, -1) for p, position in self.positions.items())

    @property
    def size(self) -> int:
        """The size of the entries in bytes."""
        return sum(len(key) + len(value or b"") for key, value in self.entries)

    def as_json(self) -> dict[str, object]:
        """Return the inverse of `from_json`."""
        parts: list[bytes] = []
        for key, value in self.entries:
            parts += [_SIZES.pack(len(key), -1 if value is None else len(value)), key, value or b""]
        payload = zlib.compress(b"".join(parts), 1)
        positions = [[partition, position] for partition, position in self.positions.items()]
        return {
            "connector": self.connector,
            "topic_id": self.topic_id,
            "positions": positions,
            "entries": base64.b64encode(payload).decode(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "OffsetsSnapshot":
        data = zlib.decompress(base64.b64decode(str(value["entries"])))
        entries: list[tuple[bytes, bytes | None]] = []
        at = 0
        while at < len(data):
            key_size, size = _SIZES.unpack_from(data, at)
            start = at + _SIZES.size
            at = start + key_size + max(0, size)
            entries.append((data[start : start + key_size], None if size < 0 else data[start + key_size : at]))
        pairs = value["positions"]
        assert isinstance(pairs, list)
        return cls(ConnectorName(str(value["connector"])), str(value["topic_id"]), dict(pairs), entries)


_AT_ONCE = 10_000
_NAME = re.compile(r'[ \t\r\n]*\[[ \t\r\n]*("(?:[^"\\]|\\.){0,1500}")')
"""A key up to its connector: JSON may escape each of the 249 bytes of a name in six."""
_LONGEST_NAME = 12_000
_ENTRY_BYTES, _VALUE_BYTES = 500, 60
"""The memory of a parsed source offset, and of each value in it, besides its text."""

_SORTED = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

Partition = Mapping[str, object]
Offset = Mapping[str, object]


def canonical(partition: Partition) -> str:
    """Return a source partition as a string that is equal for equal partitions."""
    return _SORTED.encode(partition)


def encode_key(connector: ConnectorName, partition: Partition) -> bytes:
    """Return the key as Kafka Connect writes it. Raises `Invalid` for one that is nested too deeply."""
    return _encode([connector, partition], "source partition")


def encode_value(offset: Offset | None) -> bytes | None:
    """Return the value as Kafka Connect writes it; None deletes. Raises `Invalid` for one that is nested too deeply."""
    return None if offset is None else _encode(offset, "source offset")


def _encode(value: object, kind: str) -> bytes:
    try:
        text = _COMPACT.encode(value).encode()
        if _may_be_deep(text) and is_deep(value):
            raise RecursionError
    except RecursionError as error:
        raise Invalid(f"A {kind} has more than {DEEPEST} levels, so nobody can be sure to read it again") from error
    return text


def _may_be_deep(text: bytes) -> bool:
    return text.count(b"[") + text.count(b"{") > DEEPEST


def connector_of(key: bytes | None) -> ConnectorName | None:
    """Return the connector of a key without parsing the rest; None for keys that are certainly no source offset's.

    Its work does not depend on how the source partition is nested, and it raises nothing.
    """
    if not key:
        return None
    try:
        if key[:2] == b'["' and b"\\" not in (text := key[2 : key.find(b'"', 2)]):
            return ConnectorName(text.decode())
        match = _NAME.match(key[:_LONGEST_NAME].decode(json.detect_encoding(key), "ignore"))
        if match is None:
            return None
        name = str(json.loads(match[1]))
        name.encode()  # no connector's name has half a surrogate pair
        return ConnectorName(name)
    except ValueError:
        return None


def decode_key(key: bytes | None) -> tuple[ConnectorName, Partition] | None:
    """Return connector and source partition; None for any other key (sentinels, and records of other software)."""
    parts = parse_json(key)
    if not isinstance(parts, list) or len(parts) != 2 or not isinstance(parts[0], str):
        return None
    return (ConnectorName(parts[0]), cast(Partition, parts[1])) if isinstance(parts[1], dict) else None


def decode_value(value: bytes | None) -> Offset | None:
    """Return the source offset; None for a tombstone, and for a value that is not a JSON object."""
    offset = parse_json(value)
    return cast(Offset, offset) if isinstance(offset, dict) else None


def parse_json(text: bytes | None) -> object:
    """Parse JSON; None for what is not JSON, or nested more deeply than anybody writes it."""
    if not text:
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return None if _may_be_deep(text) and is_deep(value) else value


def weight(key: bytes, value: bytes | None) -> int:
    """Estimate the memory of an entry once it is parsed: `[[],[],...` takes twenty times the bytes of its text."""
    text = key + (value or b"")
    return _ENTRY_BYTES + len(text) + _VALUE_BYTES * (text.count(b",") + text.count(b"[") + text.count(b"{"))


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The newest committed offset of one source partition, and the key bytes that hold it."""

    partition: Partition
    offset: Offset | None
    key: bytes


@dataclass(slots=True)
class SourceOffsets:
    """The committed offsets of one connector, built from records in the order of each Kafka partition.

    `offset` and `offsets` make it the `OffsetReader` that connectors see. `gaps`: consulted for a source partition that
    this topic does not mention (KIP-618, "Smooth migration"). A tombstone is a mention: an offset that was deleted here
    does not come back from a late copy there. Compaction drops tombstones, so the other topic gets its own first.
    """

    connector: ConnectorName
    gaps: "SourceOffsets | None" = None
    records_read: int = 0
    """How many offsets of the topic were read for them."""
    topic_id: str = ""
    positions: Mapping[int, int] = field(default_factory=dict)
    """The positions up to which all transactions were decided when they were read."""
    counts: dict[tuple[int, int, int], RecordCounts] = field(default_factory=dict)
    """What each attempt (task, generation, attempt) had committed, as far as the records read say so."""
    most_bytes: int | None = None
    """The memory that they may take, about. `put` raises `Invalid` above it; None for no limit."""
    _by_partition: dict[str, SourceOffset] = field(default_factory=dict)
    _weights: dict[str, int] = field(default_factory=dict)
    _weight: int = 0
    _usual: bytes = b""
    """How Kafka Connect's keys of the connector begin."""

    def __post_init__(self) -> None:
        self._usual = encode_key(self.connector, {})[: -len(b"{}]")]

    def take(self, records: "Iterable[LogRecord]") -> None:
        """Apply the records that concern this connector."""
        for record in records:
            if self.put(record.key, record.value) and record.headers:
                attempt = decode(record.headers)
                if attempt is not None:
                    self.counts[attempt.key] = attempt.counts.most(self.counts.get(attempt.key, RecordCounts()))

    def put(self, key: bytes | None, value: bytes | None) -> bool:
        """Apply one record. Returns whether it concerns this connector."""
        if key is None or not (key.startswith(self._usual) or connector_of(key) == self.connector):
            return False
        name_and_partition = decode_key(key)
        if name_and_partition is None or name_and_partition[0] != self.connector:
            return False
        partition = name_and_partition[1]
        text = canonical(partition)
        if self.most_bytes is not None:
            self._weigh(text, weight(key, value))
        self._by_partition[text] = SourceOffset(partition, decode_value(value), key)
        return True

    def _weigh(self, text: str, new: int) -> None:
        assert self.most_bytes is not None
        self._weight += new - self._weights.get(text, 0)
        self._weights[text] = new
        if self._weight > self.most_bytes:
            raise Invalid(
                f"The source offsets of connector {self.connector} take more than the {self.most_bytes:,} bytes of "
                f"memory that a worker has for them ({len(self._weights):,} were read; connector.offsets.max.bytes)"
            )

    def snapshot(self) -> OffsetsSnapshot:
        """Return the snapshot that a later read of the same topic can start from."""
        entries = [(entry.key, encode_value(entry.offset)) for entry in self._by_partition.values()]
        return OffsetsSnapshot(self.connector, self.topic_id, self.positions, entries)

    def offset(self, partition: Partition) -> Offset | None:
        entry = self._by_partition.get(canonical(partition))
        if entry is None and self.gaps is not None:
            return self.gaps.offset(partition)
        return entry.offset if entry else None

    def offsets(self, partitions: Iterable[Partition]) -> list[Offset | None]:
        return [self.offset(partition) for partition in partitions]

    def key_of(self, partition: Partition) -> bytes:
        """Return the key with which this topic holds the partition: as it was found, else in Kafka Connect's form."""
        entry = self._by_partition.get(canonical(partition))
        return entry.key if entry else encode_key(self.connector, partition)

    def own(self) -> list[SourceOffset]:
        """Return every partition that this topic mentions, without those of `gaps`."""
        return list(self._by_partition.values())

    def all(self) -> list[SourceOffset]:
        """Return every partition that either topic mentions, with deleted ones (their offset is None)."""
        fallback = {} if self.gaps is None else {canonical(offset.partition): offset for offset in self.gaps.all()}
        return list({**fallback, **self._by_partition}.values())

    def present(self) -> list[SourceOffset]:
        """Return every partition that has an offset."""
        return [offset for offset in self.all() if offset.offset is not None]


def may_concern(connector: ConnectorName) -> Callable[[bytes | None], bool]:
    """Return a cheap test that every key of this connector passes, and few others do.

    A key may have other spacing than Kafka Connect's, so the test first looks for the name in it. JSON may also contain
    escapes, or be in UTF-16 or UTF-32, which have zero bytes.
    """
    name = connector.encode()

    def test(key: bytes | None) -> bool:
        return key is not None and (name in key or b"\\" in key or b"\0" in key) and connector_of(key) == connector

    return test


def read_offsets(
    connection: Connection,
    topic: str,
    connector: ConnectorName,
    deadline: Deadline,
    give_up: Callable[[], bool] = lambda: False,
    *,
    snapshots: Sequence[OffsetsSnapshot] = (),
    report: Callable[[str], None] = lambda _text: None,
    patience_s: float = 1.0,
    most_bytes: int | None = None,
) -> SourceOffsets:
    """Read the connector's committed offsets to the current end of the topic (invariant 6).

    snapshots: of topics; of this topic only the rest is read. report: called with the progress. patience_s: see
    `TopicLog`. most_bytes: see `SourceOffsets`.
    """
    # Here, since they load Kafka's clients: who only knows the shapes needs none.
    from ringfence.fencing.kafka.topic_offsets import end_offsets
    from ringfence.fencing.topics.topic_log import TopicLog

    offsets = SourceOffsets(connector, most_bytes=most_bytes)
    log = TopicLog(connection, topic, deadline=deadline, patience_s=patience_s)
    try:
        ends = end_offsets(connection, topic, log.partitions, deadline)
        fitting = [one for one in snapshots if one.connector == connector and one.fits(log.topic_id, ends)]
        if fitting:
            for key, value in fitting[0].entries:
                offsets.put(key, value)
            log.restart(fitting[0].positions)
        starts = log.positions
        records = sum(end - starts[p] for p, end in ends.items())

        def progress(positions: Mapping[int, int], _ends: Mapping[int, int]) -> None:
            read = sum(positions[p] - start for p, start in starts.items())
            report(f"{min(read, records):,} of {records:,} records of topic {topic}")

        offsets.take(
            log.catch_up(deadline, give_up, _AT_ONCE, key_filter=may_concern(connector), ends=ends, report=progress)
        )
        offsets.take(log.ahead)
        offsets.records_read, offsets.topic_id, offsets.positions = records, log.topic_id, log.positions
    finally:
        log.close()
    return offsets
