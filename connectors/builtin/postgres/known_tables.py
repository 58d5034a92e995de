"""The tables that the stream has described, with the decoders of their rows."""

from collections.abc import Callable

from ringfence.connectors.builtin.postgres.pgoutput import NOT_READ, Reading, Relation
from ringfence.connectors.builtin.postgres.selection import Selection
from ringfence.connectors.builtin.postgres.tables import Table

Describe = Callable[[Relation], Table]


class KnownTables:
    """By oid: the relation in the stream, the table (None if it is not captured), and the decoder of its rows."""

    def __init__(self, selection: Selection, describe: Describe) -> None:
        self._selection = selection
        self._describe = describe
        self.relations: dict[int, Relation] = {}
        self.tables: dict[int, Table | None] = {}
        self.decoders: dict[int, Reading] = {}

    def relate(self, relation: Relation) -> bool:
        """Register a relation message, which applies to the following rows. Return whether they are captured."""
        oid = relation.oid
        self.relations[oid] = relation
        if not self._selection.has_table(relation.schema, relation.name):
            self.tables[oid], self.decoders[oid] = None, NOT_READ
            return False
        table = self._describe(relation)
        self.tables[oid] = self.decoders[oid] = table
        return True

    def clear(self) -> None:
        """Remove all tables: a new stream describes them again."""
        self.relations.clear()
        self.tables.clear()
        self.decoders.clear()
