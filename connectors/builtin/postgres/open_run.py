"""The run that takes the rows of the stream which become JSON at once."""

from ringfence.connectors.api import SourceRecord
from ringfence.connectors.builtin.postgres.json_records import JsonRecords
from ringfence.connectors.builtin.postgres.json_runs import JsonRun, Write, write_nothing
from ringfence.connectors.builtin.postgres.records import SourceTransaction
from ringfence.connectors.builtin.postgres.tables import Table


class OpenRun:
    """At most one run is open. It ends when a message comes that is not a row of its table.

    write(message): see `JsonRun`; false if no run is open. values: one for each record of the open run; room: how many
    it may have.
    """

    __slots__ = ("_batch_size", "_json", "_more", "_noted", "_run", "_table", "room", "values", "write")

    def __init__(self, json: JsonRecords | None, batch_size: int) -> None:
        self._json = json
        self._batch_size = batch_size
        self._run: JsonRun | None = None
        self._table: Table | None = None
        self._noted = 0
        self._more = 0
        """By how much the records of the ended runs outnumber the runs, since `reset`."""
        self.values: list[bytes | None] = []
        self.room = 0
        self.write: Write = write_nothing

    @property
    def possible(self) -> bool:
        """Whether rows can become JSON at once."""
        return self._json is not None

    def count(self, records: list[SourceRecord]) -> int:
        """Return how many records there are, with those of the ended runs in `records` and of the open one."""
        return len(records) + self._more + len(self.values)

    def append(
        self, records: list[SourceRecord], table: Table, message: bytes, lsn: int, transaction: SourceTransaction
    ) -> bool:
        """Take a row's message, in the open run or in the next one; the one before goes to `records`. Return False if
        the row has to be read into values.
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
        self._noted = len(self.values)
        return True

    def _note(self, transaction: SourceTransaction | None) -> None:
        """Count what `write` has appended as changes of the transaction: one for each record."""
        written = len(self.values) - self._noted
        if written:
            assert transaction is not None
            transaction.changes += written
            self._noted += written

    def end(self, records: list[SourceRecord], transaction: SourceTransaction | None) -> None:
        """Add what the open run has to `records`."""
        if self._run is None:
            return
        self._note(transaction)
        self._run.end(records)
        self._more += max(0, len(self.values) - 1)
        self._run = self._table = None
        self._noted = 0
        self.write, self.values = write_nothing, []

    def reset(self) -> None:
        """The records were handed over."""
        self._more = 0
