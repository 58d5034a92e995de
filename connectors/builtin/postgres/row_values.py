"""Converts rows to values. A row with a value that no record can hold becomes an `UnreadableRecord`."""

from collections.abc import Mapping, Sequence

from ringfence.connectors.api import DataException, RetriableError, SourceOffset, SourcePartition, UnreadableRecord
from ringfence.connectors.builtin.postgres.lsn import lsn_text
from ringfence.connectors.builtin.postgres.pgoutput import UNCHANGED, Change, Event, RawReading, Reading, Row, decode
from ringfence.connectors.builtin.postgres.tables import Table
from ringfence.connectors.row_records import convert_value, row_text

RawRow = Sequence[object]
"""Values in PostgreSQL's text format (bytes), None and `UNCHANGED`."""


class RefusedRow(Exception):
    """A row that cannot be converted. row: as the server wrote it."""

    def __init__(self, error: DataException, row: RawRow) -> None:
        super().__init__(str(error))
        self.error = error
        self.row = row


def convert_row(table: Table, row: Sequence[bytes | None]) -> Row:
    """Return the values of a row that was read from its table. Raises `RefusedRow`."""
    try:
        return [None if value is None else read(value) for read, value in zip(table.readers, row, strict=True)]
    except RetriableError:
        raise
    except Exception:
        if (error := _find_error(table, row)) is None:
            raise
        raise RefusedRow(error, row) from None


def decode_change(table: Table, message: bytes, decoders: "dict[int, Reading]") -> tuple[Change, RefusedRow | None]:
    """Decode a row's message. If it cannot be converted, the change has raw values."""
    try:
        return _as_change(decode(message, decoders)), None
    except RetriableError:
        raise
    except Exception:
        raw = _as_change(decode(message, {table.oid: RawReading(len(table.readers))}))
        for row in (raw.after, raw.before):
            if row is not None and (error := _find_error(table, row)) is not None:
                return raw, RefusedRow(error, raw.after or row)
        raise


def _as_change(event: Event) -> Change:
    assert isinstance(event, Change)
    return event


def _find_error(table: Table, row: RawRow) -> DataException | None:
    for name, read, value in zip(table.columns, table.readers, row, strict=True):
        if isinstance(value, bytes):
            try:
                convert_value(read, value, name)
            except DataException as error:
                return error
    return None


def unreadable(
    table: Table, refused: RefusedRow, partition: SourcePartition, offset: SourceOffset, lsn: int
) -> UnreadableRecord:
    """Return the record that stands for the row. lsn: the position of the change, or of the snapshot."""
    texts = {name: _as_text(value) for name, value in zip(table.columns, refused.row, strict=True)}
    captured = [name for name in table.columns if name in table.field_columns]
    key = {name: texts[name] for name in (captured[place] for place in table.key_places)}
    row = ", ".join(f"{name}={value}" for name, value in key.items()) or f"at {lsn_text(lsn)}"
    error = refused.error.at(where=f"The table {table.schema_name}.{table.name}", row=row)
    value = row_text(captured, [texts[name] for name in captured])
    return UnreadableRecord(partition, offset, table.topic, error, value, _key_text(key))


def _key_text(key: Mapping[str, str | None]) -> str | None:
    return row_text(list(key), list(key.values())) if key else None


def _as_text(value: object) -> str | None:
    if value is UNCHANGED or value is None:
        return None
    assert isinstance(value, bytes)
    return value.decode(errors="replace")
