"""Parquet: rows of typed columns."""

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, ClassVar

from ringfence.connectors.api import ParsedConfig, Schema, Struct
from ringfence.connectors.api.schemas import struct
from ringfence.connectors.builtin.files.formats.base import Columns, FormatError, FormatReader, Rows

_BATCH_ROWS = 10_000
_MOST_ELEMENTS = 1_000_000
"""Of one list or map: a file of some kilobytes may have a list of billions."""
_ARROWS_WORDS = ("Parquet", "thrift", "Thrift")
"""What Arrow writes into the OSError for a broken file; one of the place that is read says other things."""


class ParquetReader(FormatReader):
    """Each row is a struct with the file's columns. Row groups before the position are not read."""

    unit: ClassVar[str] = "row"
    module: ClassVar[str | None] = "pyarrow"
    compressible: ClassVar[bool] = False

    def __init__(self, file: BinaryIO | Any, position: int, settings: ParsedConfig) -> None:
        import pyarrow
        import pyarrow.parquet

        from ringfence.connectors.builtin.files.formats.arrow_types import to_connect

        try:
            self._file = pyarrow.parquet.ParquetFile(file)
            columns = [(field.name, *to_connect(field.type, field.name)) for field in self._file.schema_arrow]
        except (pyarrow.ArrowException, ValueError, RecursionError) as error:
            raise FormatError(f"it is not a Parquet file: {error}") from error
        except OSError as error:
            if any(word in str(error) for word in _ARROWS_WORDS):
                raise FormatError(f"it is not a Parquet file: {error}") from error
            raise
        if not columns:
            raise FormatError("it has no columns")
        self._schema: Schema = struct({name: schema for name, schema, _ in columns})
        self._converters: list[Callable[[pyarrow.Array[Any]], list[object]]] = [convert for _, _, convert in columns]
        self._count: int = self._file.metadata.num_rows
        self._row = position
        self._batches = self._read_batches(position)
        self._columns: list[list[object]] = []
        self._next = self._length = 0

    def read(self, limit: int) -> Rows:
        schema, columns = self._schema, self.read_columns(limit)
        if columns is None:
            return Rows([], [], schema)
        values = [Struct.of(schema, list(row)) for row in zip(*columns.values, strict=True)]
        return Rows(values, range(columns.first, columns.first + len(values)), schema)

    def read_columns(self, limit: int) -> Columns | None:
        if self._next == self._length:
            self._columns, self._next = next(self._batches, []), 0
            self._length = len(self._columns[0]) if self._columns else 0
        start, end = self._next, min(self._next + limit, self._length)
        if start == end:
            return None
        first = self._row + 1
        self._next, self._row = end, self._row + end - start
        return Columns([column[start:end] for column in self._columns], first, self._schema)

    @property
    def at_end(self) -> bool:
        return self._row >= self._count

    def _read_batches(self, position: int) -> Iterator[list[list[object]]]:
        """Yield the columns after the position, some thousand rows at a time."""
        import pyarrow

        metadata = self._file.metadata
        group = 0
        while group < metadata.num_row_groups and position >= metadata.row_group(group).num_rows:
            position -= metadata.row_group(group).num_rows
            group += 1
        if group == metadata.num_row_groups:
            return
        try:
            for batch in self._file.iter_batches(_BATCH_ROWS, row_groups=[*range(group, metadata.num_row_groups)]):
                rest = batch.slice(min(position, batch.num_rows))
                position -= batch.num_rows - rest.num_rows
                if rest.num_rows:
                    for column in rest.columns:
                        _check_lists(column)
                    yield [convert(column) for convert, column in zip(self._converters, rest.columns, strict=True)]
        except MemoryError as error:
            raise FormatError(
                f"its {_BATCH_ROWS:,} rows after row {self._row} need more memory than the task has"
            ) from error
        except (pyarrow.ArrowException, ValueError, ArithmeticError) as error:
            raise FormatError(f"it cannot be read as Parquet after row {self._row}: {error}") from error


def _check_lists(column: Any) -> None:
    """Raise `FormatError` for a list or map that is too long to become Python values."""
    import pyarrow.compute

    types, compute = pyarrow.types, pyarrow.compute
    if types.is_list(column.type) or types.is_large_list(column.type) or types.is_map(column.type):
        longest = compute.max(compute.subtract(column.offsets[1:], column.offsets[:-1])).as_py() or 0
        if longest > _MOST_ELEMENTS:
            raise FormatError(f"it has a list of {longest:,} elements, and at most {_MOST_ELEMENTS:,} are read")
        _check_lists(column.items if types.is_map(column.type) else column.flatten())
    elif types.is_struct(column.type):
        for part in column.flatten():
            _check_lists(part)
