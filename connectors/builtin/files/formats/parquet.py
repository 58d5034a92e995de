"""Parquet: rows of columns with types."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from ringfence.connectors.api import ParsedConfig, Schema, Struct
from ringfence.connectors.api.schemas import struct
from ringfence.connectors.builtin.files.formats.base import FormatError, FormatReader, Rows

if TYPE_CHECKING:
    pass

_BATCH_ROWS = 10_000


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
        except pyarrow.ArrowInvalid as error:
            raise FormatError(f"it is not a Parquet file: {error}") from error
        self._schema: Schema = struct({name: schema for name, schema, _ in columns})
        self._converters: list[Callable[[pyarrow.Array[Any]], list[object]]] = [convert for _, _, convert in columns]
        self._count: int = self._file.metadata.num_rows
        self._row = position
        self._batches = self._read_batches(position)
        self._rows: list[list[object]] = []
        self._next = 0

    def read(self, limit: int) -> Rows:
        if self._next == len(self._rows):
            self._rows, self._next = next(self._batches, []), 0
        schema, start = self._schema, self._next
        rows = self._rows[start : start + limit]
        self._next += len(rows)
        first = self._row + 1
        self._row += len(rows)
        return Rows([Struct.of(schema, row) for row in rows], range(first, self._row + 1), schema)

    @property
    def at_end(self) -> bool:
        return self._row >= self._count

    def _read_batches(self, position: int) -> Iterator[list[list[object]]]:
        """The rows behind the position, some thousand at a time."""
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
                    columns = [convert(column) for convert, column in zip(self._converters, rest.columns, strict=True)]
                    yield [list(row) for row in zip(*columns, strict=True)]
        except pyarrow.ArrowInvalid as error:
            raise FormatError(f"it cannot be read as Parquet behind row {self._row}: {error}") from error
