"""The tables that the stream has described, and how their rows are read."""

from collections.abc import Callable

from ringfence.connectors.builtin.postgres.pgoutput import NOT_READ, Reading, Relation
from ringfence.connectors.builtin.postgres.selection import Selection
from ringfence.connectors.builtin.postgres.tables import Table

Describe = Callable[[Relation], Table]


class KnownTables:
    """By oid: the relation as the stream has it, the table (None if it is not read), and what decodes its rows."""

    def __init__(self, selection: Selection, describe: Describe) -> None:
        self._selection = selection
        self._describe = describe
        self.relations: dict[int, Relation] = {}
        self.tables: dict[int, Table | None] = {}
        self.decoders: dict[int, Reading] = {}

    def relate(self, relation: Relation) -> bool:
        """Take a relation as the stream has it from here on. Return whether its rows are read."""
        oid = relation.oid
        self.relations[oid] = relation
        if not self._selection.has_table(relation.schema, relation.name):
            self.tables[oid], self.decoders[oid] = None, NOT_READ
            return False
        table = self._describe(relation)
        self.tables[oid] = self.decoders[oid] = table
        return True

    def clear(self) -> None:
        """Forget all of them: a new stream describes them again."""
        self.relations.clear()
        self.tables.clear()
        self.decoders.clear()
