"""The content of an offsets topic for one connector up to some position, so that its reader only reads the rest.

A worker follows the topic once for all its connectors (`fencing.offsets.view`). An attempt gets its connector's part
with its assignment and reads on from `positions` after its own init, so it misses nothing (invariant 6): all that is
before the positions was before the last stable offset when the snapshot was taken, so it was decided.
"""

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ringfence.fencing.ids import ConnectorName

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
