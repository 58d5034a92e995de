"""Debezium's signal table: each inserted row, with the columns id, type and data, is a request."""

from typing import Final, NamedTuple

from ringfence.connectors.api import OffsetRecord, ParsedConfig, SourceRecord
from ringfence.connectors.builtin.postgres import setting_names as names
from ringfence.connectors.builtin.postgres.incremental.state import incremental_partition
from ringfence.connectors.builtin.postgres.pgoutput import Relation, read_row

_INSERT: Final = 73


class PendingSignal(NamedTuple):
    """A signal that was not carried out yet. record: its offset is set to the state after the signal."""

    record: SourceRecord
    kind: str
    data: str


class SignalTable:
    """Collects the signals in the stream."""

    def __init__(self, table: str, partition: dict[str, object]) -> None:
        """table: schema.table, from the setting."""
        self._table = table
        self._partition = partition
        self._columns: dict[int, list[str]] = {}
        self._pending: list[PendingSignal] = []

    @classmethod
    def of(cls, config: ParsedConfig, prefix: str) -> "SignalTable | None":
        """Return the signal table of a configuration, or None."""
        table = str(config[names.SIGNALS] or "").strip()
        return cls(table, incremental_partition(prefix)) if table else None

    def relate(self, relation: Relation) -> None:
        """Register a table's columns for the following changes, if it is the signal table."""
        if f"{relation.schema}.{relation.name}" == self._table:
            self._columns[relation.oid] = [column.name for column in relation.columns]

    def is_table(self, oid: int) -> bool:
        """Return whether this is the signal table."""
        return oid in self._columns

    def has(self, oid: int, message: bytes) -> bool:
        """Return whether a row's message is a signal."""
        return message[0] == _INSERT and oid in self._columns

    def add(self, message: bytes) -> SourceRecord:
        """Add a signal. Return the record that commits it."""
        columns = self._columns[int.from_bytes(message[1:5], "big")]
        values, _, _ = read_row(message, 6, [bytes] * len(columns))
        row = {name: value for name, value in zip(columns, values, strict=True) if isinstance(value, bytes)}
        record = OffsetRecord(self._partition, {})
        kind, data = (row.get(name, b"").decode() for name in ("type", "data"))
        self._pending.append(PendingSignal(record, kind, data))
        return record

    def take(self) -> list[PendingSignal]:
        """Return and remove the collected signals."""
        signals, self._pending = self._pending, []
        return signals
