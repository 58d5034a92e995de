"""What happens between the reading of a chunk and the position behind everything that it sees."""

from collections.abc import Sequence, Set

from ringfence.connectors.api import OffsetRecord, SourceRecord
from ringfence.connectors.builtin.postgres.pgoutput import Change, Relation
from ringfence.connectors.builtin.postgres.snapshot.change_keys import ChangeKeys
from ringfence.connectors.builtin.postgres.snapshot.plan import Key, PlannedTable
from ringfence.connectors.builtin.postgres.snapshot.visibility import Visibility


def leave_out(records: Sequence[SourceRecord], contained: Set[int]) -> list[SourceRecord]:
    """Without those that are contained, by `id`, but with their offsets."""
    return [OffsetRecord(one.source_partition, one.source_offset) if id(one) in contained else one for one in records]


class Window:
    """Notes which records of the stream the rows of a chunk contain already. The rows come first, then the rest.

    The rule: a change is contained if the snapshot sees its transaction and the chunk has a row with its key. A row
    that the chunk does not have hides nothing, so a delete of what consumers have known for long arrives. Where
    something happens that the rule does not decide, the chunk is not handed over but read again (`broken`).
    """

    def __init__(self, table: PlannedTable, view: Visibility, keys: Set[Key], until: int, *, counted: bool) -> None:
        """keys: of the chunk's rows. until: behind the commit of every transaction that the view sees. counted: the
        records of a transaction are counted for its metadata, so none may be left out.
        """
        self.oid = table.oid
        self.until = until
        self.contained: set[int] = set()
        """By `id`."""
        self.broken = ""
        self._view = view
        self._keys = keys
        self._counted = counted
        self._change_keys = ChangeKeys(table.key)

    def relate(self, relation: Relation) -> None:
        """The table's columns, as the stream has them from here on."""
        if missing := self._change_keys.relate(relation):
            self.broken = f"its column {missing} has gone"

    def note(self, change: Change, message: bytes, xid: int, records: Sequence[SourceRecord]) -> None:
        """A change of the chunk's table has led to these records."""
        if self.broken or not records or not self._view.has(xid):
            return
        old, new = self._change_keys.find(change, message)
        moved = change.op == "u" and old != new and len(records) > 1  # a delete, a tombstone and a create
        at_old = records[:-1] if moved else records if change.op == "d" else ()
        at_new = records[-1:] if moved else () if change.op == "d" else records
        found = [*(at_old if old in self._keys else ()), *(at_new if new in self._keys else ())]
        if found and self._counted:
            self.broken = "a transaction whose records are counted has changed its rows"
        self.contained.update(map(id, found))

    def truncate(self) -> None:
        """The table was emptied."""
        self.broken = "the table was emptied"
