"""Reads the keys of changes in the stream, in PostgreSQL's text format."""

from collections.abc import Sequence

from ringfence.connectors.builtin.postgres.pgoutput import UNCHANGED, Change, RawReading, Relation, Row, decode
from ringfence.connectors.builtin.postgres.snapshot.plan import Key


class ChangeKeys:
    """Reads the keys of one table's changes. key: the names of its columns."""

    def __init__(self, key: Sequence[str]) -> None:
        self._key = key
        self._places: list[int] = []
        self._raw: dict[int, RawReading] = {}

    def relate(self, relation: Relation) -> str:
        """Register the table's columns for the following changes. Return the key's first missing column, or ""."""
        columns = [column.name for column in relation.columns]
        if missing := [name for name in self._key if name not in columns]:
            return missing[0]
        self._places = [columns.index(name) for name in self._key]
        self._raw = {relation.oid: RawReading(len(columns))}
        return ""

    def find(self, change: Change, message: bytes) -> tuple[Key, Key]:
        """Return the key before and after a change: the same one if it has not changed, or only one is known."""
        raw = decode(message, dict(self._raw))
        assert isinstance(raw, Change)
        new = self._of(raw.after, raw.before) if raw.after is not None else None
        old = self._of(raw.before, None) if raw.before is not None else new
        new = new or old
        assert new is not None
        assert old is not None
        return old, new

    def _of(self, row: Row | None, other: Row | None) -> Key:
        assert row is not None
        values = []
        for place in self._places:
            value = row[place]
            if value is UNCHANGED and other is not None:
                value = other[place]  # an unchanged part of the key that is stored out of line
            assert isinstance(value, bytes)
            values.append(value.decode())
        return tuple(values)
