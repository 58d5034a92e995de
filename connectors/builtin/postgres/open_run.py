"""The run that collects the stream's rows that become JSON directly."""

from ringfence.connectors.api import SourceRecord
from ringfence.connectors.builtin.postgres.json_records import JsonRecords
from ringfence.connectors.builtin.postgres.json_runs import JsonRun, Write, write_nothing
from ringfence.connectors.builtin.postgres.records import SourceTransaction
from ringfence.connectors.builtin.postgres.tables import Table


class OpenRun:
    """Manages the open run, at most one. It ends at the first message that is not a row of its table.

    write(message): see `JsonRun`; returns False if no run is open. values: one for each record of the open run. room:
    the maximum number of values.
    """

    __slots__ = ("_batch_size", "_counted_values", "_json", "_more", "_run", "_table", "room", "values", "write")

    def __init__(self, json: JsonRecords | None, batch_size: int) -> None:
        self._json = json
        self._batch_size = batch_size
        self._run: JsonRun | None = None
        self._table: Table | None = None
        self._counted_values = 0
        self._more = 0
        """The records of the ended runs minus the number of these runs, since `reset`."""
        self.values: list[bytes | None] = []
        self.room = 0
        self.write: Write = write_nothing

    @property
    def possible(self) -> bool:
        """Whether rows can become JSON directly."""
        return self._json is not None

    def count(self, records: list[SourceRecord]) -> int:
        """Return the number of records, including those of the ended runs in `records` and of the open run."""
        return len(records) + self._more + len(self.values)

    def append(
        self, records: list[SourceRecord], table: Table, message: bytes, lsn: int, transaction: SourceTransaction
    ) -> bool:
        """Append a row's message to the open run, or to a new one if the table has changed: then the open run ends and
        goes to `records`. Return False if the row must be decoded.
        """
        assert self._json is not None
        if self._table is not table or self._run is None:
            self.end(records, transaction)
            self._run = self._json.begin_run(table, transaction)
            if self._run is None:
                return False
            self._table, self.write, self.values = table, self._run.write, self._run.values
            self.room = self._batch_size - len(records) - self._more
        self._note(transaction)
        if not self._run.append(message, lsn):
            return False
        transaction.changes += 1
        self._counted_values = len(self.values)
        return True

    def _note(self, transaction: SourceTransaction | None) -> None:
        """Count the records that `write` has appended as changes of the transaction."""
        count = len(self.values) - self._counted_values
        if count:
            assert transaction is not None
            transaction.changes += count
            self._counted_values += count

    def end(self, records: list[SourceRecord], transaction: SourceTransaction | None) -> None:
        """End the open run, and add it to `records`."""
        if self._run is None:
            return
        self._note(transaction)
        self._run.end(records)
        self._more += max(0, len(self.values) - 1)
        self._run = self._table = None
        self._counted_values = 0
        self.write, self.values = write_nothing, []

    def reset(self) -> None:
        """Count from zero again, after the records were returned from `poll`."""
        self._more = 0
