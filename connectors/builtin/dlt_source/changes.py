"""Finds what is new in a resource that is read as a whole each time (`changes.only`). Pure.

For each row, a digest of its key and one of its content are stored, in source offsets of their own: in some hundred
buckets by the key's digest. Buckets that change are written in the transaction of the rows, so a row is known if and
only if it is in Kafka.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ringfence.connectors.api import ConnectorError, OffsetReader, OffsetRecord, SourceOffset
from ringfence.connectors.builtin.dlt_source.settings import BUCKET, CHANGES, ROWS

BUCKETS: Final = 256
_MAX_ROWS: Final = 20_000
"""The maximum of rows in a bucket: a source offset must fit into a record that brokers accept."""

Buckets = dict[int, dict[str, str]]
"""By bucket: the digest of each row's key, and that of its content."""


class KnownRows:
    """The rows of one resource that were delivered so far."""

    def __init__(self, partition: Mapping[str, object], columns: Sequence[str], reader: OffsetReader) -> None:
        """partition: the resource's. columns: those of its primary key. Raises `ConnectorError`."""
        self._partition = dict(partition)
        self._columns = columns
        offsets = reader.offsets([self._bucket(number) for number in range(BUCKETS)])
        self._rows: Buckets = {number: check_rows(offset) for number, offset in enumerate(offsets) if offset}

    def compare(self) -> "Comparison":
        """Return a comparison for a new reading."""
        return Comparison(self._rows, self._columns)

    def take_over(self, comparison: "Comparison") -> list[OffsetRecord]:
        """Take over all rows of a reading. Returns the offsets for the transaction with its rows."""
        changed = {
            number: comparison.rows.get(number, {})
            for number in self._rows.keys() | comparison.rows.keys()
            if comparison.rows.get(number, {}) != self._rows.get(number, {})
        }
        self._rows = comparison.rows
        return [OffsetRecord(self._bucket(number), {ROWS: rows} if rows else None) for number, rows in changed.items()]

    def _bucket(self, number: int) -> dict[str, object]:
        return {**self._partition, BUCKET: number}


class Comparison:
    """Compares one reading with the previous one."""

    def __init__(self, before: Buckets, columns: Sequence[str]) -> None:
        self._before = before
        self._columns = columns
        self.rows: Buckets = {}
        """The rows of this reading. Deleted rows are not in it: if they return, they are new."""

    def choose_new(self, items: Sequence[Any]) -> list[Any]:
        """Return the rows that are new or have changed. Raises `ConnectorError` for rows without a unique key."""
        return [item for item in items if self._is_new(item)]

    def _is_new(self, item: Any) -> bool:
        if not isinstance(item, dict) or any(item.get(column) is None for column in self._columns):
            raise ConnectorError(f"{CHANGES}: a row has no value for the primary key {', '.join(self._columns)}.")
        key = hashlib.blake2b(_encode([item[column] for column in self._columns]), digest_size=16).digest()
        number, name = key[0], _text(key)
        bucket = self.rows.setdefault(number, {})
        if name in bucket:
            values = ", ".join(repr(item[column]) for column in self._columns)
            raise ConnectorError(
                f"{CHANGES}: two rows of one reading have the primary key {values}. Set a primary_key that is unique."
            )
        if len(bucket) >= _MAX_ROWS:
            raise ConnectorError(
                f"{CHANGES}: the resource has more than about {BUCKETS * _MAX_ROWS:,} rows, the most that can be "
                "compared. Give it an incremental, or divide it."
            )
        content = bucket[name] = _text(hashlib.blake2b(_encode(item), digest_size=12).digest())
        return self._before.get(number, {}).get(name) != content


def check_rows(offset: SourceOffset) -> dict[str, str]:
    """Return the rows of a bucket. Raises `ConnectorError`."""
    rows = offset.get(ROWS)
    if not isinstance(rows, dict) or not all(isinstance(each, str) for each in rows.values()):
        raise ConnectorError(
            f"The offset {dict(offset)} must have the digests of rows under {ROWS!r}. Stop the connector and reset "
            "its offsets; then all rows are read again."
        )
    return {str(key): str(content) for key, content in rows.items()}


def _encode(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _text(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
