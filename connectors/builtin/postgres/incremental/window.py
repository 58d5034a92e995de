"""The changes between reading a chunk and the position after everything that the chunk sees."""

from collections.abc import Sequence, Set

from ringfence.connectors.api import OffsetRecord, SourceRecord
from ringfence.connectors.builtin.postgres.pgoutput import Change, Relation
from ringfence.connectors.builtin.postgres.snapshot.change_keys import ChangeKeys
from ringfence.connectors.builtin.postgres.snapshot.plan import Key, PlannedTable
from ringfence.connectors.builtin.postgres.snapshot.visibility import Visibility


def leave_out(records: Sequence[SourceRecord], contained: Set[int]) -> list[SourceRecord]:
    """Return the records; of those whose `id` is in `contained`, only their offsets."""
    return [OffsetRecord(one.source_partition, one.source_offset) if id(one) in contained else one for one in records]


class Window:
    """Finds the stream's records that a chunk's rows already contain. The rows precede the remaining records.

    The rule: a change is contained if the database snapshot sees its transaction, and the chunk has a row with its key.
    If the chunk has no such row, the change is delivered, for example a delete. If the rule does not apply, `broken` is
    the reason: the chunk is discarded, and read again.
    """

    def __init__(
        self, table: PlannedTable, view: Visibility, keys: Set[Key], until: int, *, with_metadata: bool
    ) -> None:
        """keys: of the chunk's rows; until: a position after the commit of every transaction that the view sees;
        with_metadata: the records of a transaction are counted for its metadata, so none may be left out.
        """
        self.oid = table.oid
        self.until = until
        self.contained: set[int] = set()
        """The `id`s of the contained records."""
        self.broken = ""
        self._view = view
        self._keys = keys
        self._with_metadata = with_metadata
        self._change_keys = ChangeKeys(table.key)

    def relate(self, relation: Relation) -> None:
        """Register the table's columns for the following changes."""
        if missing := self._change_keys.relate(relation):
            self.broken = f"its column {missing} was dropped"

    def note(self, change: Change, message: bytes, xid: int, records: Sequence[SourceRecord]) -> None:
        """Note a change of the chunk's table, and its records."""
        if self.broken or not records or not self._view.has(xid):
            return
        old, new = self._change_keys.find(change, message)
        moved = change.op == "u" and old != new and len(records) > 1  # a delete, a tombstone and a create
        at_old = records[:-1] if moved else records if change.op == "d" else ()
        at_new = records[-1:] if moved else () if change.op == "d" else records
        rows = [*(at_old if old in self._keys else ()), *(at_new if new in self._keys else ())]
        if rows and self._with_metadata:
            self.broken = "a transaction whose records are counted has changed its rows"
        self.contained.update(map(id, rows))

    def truncate(self) -> None:
        """Note a TRUNCATE of the table."""
        self.broken = "the table was truncated"
