"""Makes records of rows that were read by column. A value that no record can hold refuses its row only."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ringfence.connectors.api import (
    ConnectorError,
    DataException,
    RetriableError,
    Schema,
    SourceOffset,
    SourcePartition,
    SourceRecord,
    Struct,
    StructBatch,
    UnreadableRecord,
)

ValueOf = Callable[[Any], object]
"""Converts a value that is not null. Whatever it raises, except `RetriableError`, refuses the row."""


@dataclass(frozen=True, slots=True)
class RowReader:
    """What rows of one table, query or file become.

    where: its name for messages, such as `The table public.orders`; schema: the struct of the values; value_of: for
    each field a conversion, None if the values fit as they are; row_of(row): the row's key or place for messages, such
    as `id=7`, from the values as they were read.
    """

    where: str
    topic: str
    schema: Schema
    value_of: Sequence[ValueOf | None]
    row_of: Callable[[Sequence[object]], str]

    def records(
        self,
        partition: SourcePartition,
        offset: SourceOffset,
        columns: Sequence[Sequence[object]],
        offset_of: Callable[[int], SourceOffset],
    ) -> Sequence[SourceRecord]:
        """Return the rows in order: as one batch if all of them can be converted, with `UnreadableRecord`s if not.

        columns: for each field the values of all rows, as they were read; offset: after the last row; offset_of: see
        `StructBatch`.
        """
        try:
            converted = [
                values if value_of is None else [None if value is None else value_of(value) for value in values]
                for value_of, values in zip(self.value_of, columns, strict=True)
            ]
        except RetriableError:
            raise
        except Exception:  # noqa: BLE001 - row by row it is raised again, by the value that is to blame
            converted = None
        if converted is None:  # outside of `except`, so that no trace has the first error, too
            return self._one_by_one(partition, offset, columns, offset_of)
        return StructBatch(partition, offset, self.topic, self.schema, converted, offset_of)

    def _one_by_one(
        self,
        partition: SourcePartition,
        offset: SourceOffset,
        columns: Sequence[Sequence[object]],
        offset_of: Callable[[int], SourceOffset],
    ) -> list[SourceRecord]:
        last = len(columns[0]) - 1
        records: list[SourceRecord] = []
        for number, row in enumerate(zip(*columns, strict=True)):
            at = offset if number == last else offset_of(number)
            try:
                value = Struct.of(self.schema, self._convert(row))
            except DataException as error:
                records.append(self.unreadable(partition, at, row, error))
            else:
                records.append(SourceRecord(partition, at, self.topic, value, value_schema=self.schema))
        return records

    def unreadable(
        self, partition: SourcePartition, offset: SourceOffset, row: Sequence[object], error: DataException
    ) -> UnreadableRecord:
        """Return the row as one that cannot be read, with what was read of it as JSON."""
        error.at(where=self.where, row=self.row_of(row))
        return UnreadableRecord(partition, offset, self.topic, error, row_text(self.schema.names, row))

    def _convert(self, row: Sequence[object]) -> list[object]:
        return [
            value if value is None or value_of is None else convert_value(value_of, value, name)
            for name, value_of, value in zip(self.schema.names, self.value_of, row, strict=True)
        ]


def convert_value(value_of: ValueOf, value: object, column: str) -> object:
    """Convert one value. Raises `RetriableError`, and `DataException` with the column for anything else."""
    try:
        return value_of(value)
    except RetriableError:
        raise
    except DataException as error:
        raise error.at(column=column)  # noqa: B904 - it is the same error
    except ConnectorError as error:
        raise DataException(str(error), value=value, column=column) from error
    except Exception as error:
        reason = f"the value cannot be converted ({type(error).__name__})"
        raise DataException(reason, value=value, column=column) from error


def row_text(names: Sequence[str], row: Sequence[object]) -> str:
    """Return a row as JSON, each value in its own form or as text."""
    values = {name: _in_json(value) for name, value in zip(names, row, strict=True)}
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _in_json(value: object) -> object:
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case Struct():
            return {name: _in_json(each) for name, each in zip(value.schema.names, value.values, strict=True)}
        case Mapping():
            return {str(_in_json(key)): _in_json(each) for key, each in value.items()}
        case list() | tuple():
            return [_in_json(each) for each in value]
    return str(value)
