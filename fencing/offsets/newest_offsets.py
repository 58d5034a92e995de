"""The newest source offsets by connector, as bytes: the content of a followed view of an offsets topic. Pure.

Keys are not parsed if they have Kafka Connect's form, which names the connector up to the second quotation mark.
"""

from typing import Final

from ringfence.fencing.ids import ConnectorName
from ringfence.fencing.offsets.source_offsets import connector_of

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
