"""Parquet: rows of typed columns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple

from ringfence.connectors.api import DataException, ParsedConfig, Schema, SchemaType, Struct
from ringfence.connectors.builtin.files.formats import (
    Columns,
    FormatError,
    FormatReader,
    Rows,
    Unreadable,
    make_distinct,
)
from ringfence.connectors.builtin.files.settings import INT96, ValueOptions, options_of
from ringfence.connectors.sdk.row_records import row_text
from ringfence.connectors.sdk.unsupported_values import Handling

_BATCH_ROWS: Final = 10_000
_PER_UNIT: Final = {"ns": 1_000_000, "us": 1000}
"""Of an INT96 timestamp's unit: how many are a millisecond."""


class _Batch(NamedTuple):
    """Some rows: the values of each column, and those rows that cannot be read, by their index."""

    length: int
    columns: Sequence[list[object]]
    unreadable: Mapping[int, Unreadable]


class ParquetReader(FormatReader):
    """Each row is a struct with the file's columns. Row groups before the position are not read."""

    unit: ClassVar[str] = "row"
    module: ClassVar[str | None] = "pyarrow"
    compressible: ClassVar[bool] = False

    def __init__(self, file: BinaryIO | Any, position: int, settings: ParsedConfig) -> None:
        from ringfence.connectors.builtin.files.formats.arrow_types import to_connect

        options = options_of(settings)
        self._file, source = open_parquet(file, options.int96)
        fields = list(self._file.schema_arrow)
        self._names = make_distinct([field.name for field in fields])
        try:
            types = [to_connect(field.type, name, options) for field, name in zip(fields, self._names, strict=True)]
        except RecursionError as error:
            raise FormatError("its columns are nested too deeply") from error
        self._source = source
        self._converters = [type.convert for type in types]
        inner = zip(self._names, (type.schema for type in types), strict=True)
        self._schema = Schema(SchemaType.STRUCT, fields=inner)
        self._int96 = _Int96.find(self._file, source, options)
        self._count: int = self._file.metadata.num_rows
        self._row = position
        self._batches = self._read_batches(position)
        self._batch = _Batch(0, [], {})
        self._next = 0
        """The next row of the batch."""

    def read(self, limit: int) -> Rows:
        start, end = self._look(limit)
        first, schema, batch = self._row + 1, self._schema, self._batch
        self._next, self._row = end, self._row + end - start
        parts = [column[start:end] for column in batch.columns]
        rows = zip(*parts, strict=True) if parts else [()] * (end - start)
        return Rows(
            [Struct.of(schema, list(row)) for row in rows],
            range(first, first + end - start),
            schema,
            {number - start: batch.unreadable[number] for number in range(start, end) if number in batch.unreadable},
        )

    def read_columns(self, limit: int) -> Columns | None:
        start, end = self._look(limit)
        bad = self._batch.unreadable
        if start == end or not self._batch.columns or (bad and any(number in bad for number in range(start, end))):
            return None
        first = self._row + 1
        self._next, self._row = end, self._row + end - start
        return Columns([column[start:end] for column in self._batch.columns], first, self._schema)

    @property
    def at_end(self) -> bool:
        return self._row >= self._count

    def _look(self, limit: int) -> tuple[int, int]:
        """Return the bounds of the next rows in the batch; the same twice at the end."""
        while self._next == self._batch.length and not self.at_end:
            batch = next(self._batches, None)
            if batch is None:
                raise FormatError(f"it has {self._row} rows, and says to have {self._count}")
            self._batch, self._next = batch, 0
        return self._next, min(self._next + limit, self._batch.length)

    def _read_batches(self, position: int) -> Iterator[_Batch]:
        """Yield the rows after the position, some thousand at a time."""
        import pyarrow

        metadata = self._file.metadata
        group = 0
        while group < metadata.num_row_groups and position >= metadata.row_group(group).num_rows:
            position -= metadata.row_group(group).num_rows
            group += 1
        groups = [*range(group, metadata.num_row_groups)]
        try:
            if not self._converters:
                yield from _empty_rows(self._count - self._row)
            elif groups:
                yield from self._read_groups(groups, position)
        except MemoryError as error:
            raise FormatError(
                f"its {_BATCH_ROWS:,} rows after row {self._row} need more memory than the task has"
            ) from error
        except (pyarrow.ArrowException, ValueError, ArithmeticError, OSError) as error:
            if self._source.failed:
                raise
            raise FormatError(f"it cannot be read as Parquet after row {self._row}: {error}") from error

    def _read_groups(self, groups: Sequence[int], position: int) -> Iterator[_Batch]:
        """Yield the rows of some row groups after a position in the first one."""
        if self._int96 is not None:
            self._int96.begin(groups)
        for batch in self._file.iter_batches(_BATCH_ROWS, row_groups=groups):
            skipped = min(position, batch.num_rows)
            position -= skipped
            milliseconds = None if self._int96 is None else self._int96.take(batch.num_rows).slice(skipped)
            if skipped < batch.num_rows:
                yield self._convert(batch.slice(skipped), milliseconds)

    def _convert(self, batch: Any, milliseconds: Any) -> _Batch:
        """Convert each column; one by one the values of a column with values that no record can hold.

        milliseconds: the columns with INT96 timestamps, in that unit.
        """
        from ringfence.connectors.builtin.files.formats.arrow_types import check_lists

        errors: dict[int, DataException] = {}
        columns: list[list[object]] = []
        for place, (name, convert, column) in enumerate(zip(self._names, self._converters, batch.columns, strict=True)):
            check_lists(column)
            try:
                columns.append(convert(column))
            except _VALUE_ERRORS:
                columns.append([_convert_one(convert, column, number, name, errors) for number in range(len(column))])
            if self._int96 is not None:
                self._int96.check(milliseconds, place, name, columns[-1], errors)
        unreadable = {
            number: Unreadable(
                error.at(row=str(self._row + number + 1)),
                row_text(self._names, [column[number] for column in columns]),
            )
            for number, error in errors.items()
        }
        return _Batch(batch.num_rows, columns, unreadable)


def open_parquet(file: BinaryIO | Any, int96: str = "us") -> "tuple[Any, _Witness]":
    """Return a Parquet file, and the stream that it reads. int96: the unit of such timestamps. Raises `FormatError`,
    and OSError if the stream cannot be read.
    """
    import pyarrow
    import pyarrow.parquet

    source = _Witness(file)
    try:
        return pyarrow.parquet.ParquetFile(source, coerce_int96_timestamp_unit=int96), source
    except (pyarrow.ArrowException, ValueError, RecursionError) as error:
        raise FormatError(f"it is not a Parquet file: {error}") from error
    except OSError as error:
        if source.failed:
            raise
        raise FormatError(f"it is not a Parquet file: {error}") from error


_VALUE_ERRORS: Final = (DataException, ValueError, ArithmeticError, LookupError, TypeError, NotImplementedError)
"""What converting raises; Arrow's own exceptions are among them."""


def _convert_one(
    convert: Callable[[Any], list[object]], column: Any, number: int, name: str, errors: dict[int, DataException]
) -> object:
    """Return one value. One that no record can hold is returned as it is, with its error in `errors`."""
    try:
        return convert(column.slice(number, 1))[0]
    except DataException as error:
        errors.setdefault(number, error.at(column=name))
        return error.value
    except _VALUE_ERRORS as error:
        reason = f"the value cannot be converted ({type(error).__name__})"
        errors.setdefault(number, DataException(reason, column=name, remedy="Correct the row"))
        return None


def _empty_rows(count: int) -> Iterator[_Batch]:
    """Yield the rows of a file without columns."""
    while count:
        length = min(count, _BATCH_ROWS)
        yield _Batch(length, [], {})
        count -= length


class _Int96:
    """Finds INT96 timestamps that the chosen unit cannot hold: Arrow would return another time, and say nothing.

    It reads them a second time in milliseconds, which hold all of them.
    """

    def __init__(self, file: Any, paths: list[str], places: Mapping[int, int], options: ValueOptions) -> None:
        self._file = file
        self._paths = paths
        self._places = places
        """By the place of a column in the file, its place among those that have INT96 timestamps."""
        self._most = ((1 << 63) - 1) // _PER_UNIT[options.int96] - 1
        self._unit = options.int96
        self._null = options.unsupported is Handling.NULL
        self._batches: Iterator[Any] = iter(())
        self._read: list[Any] = []

    @classmethod
    def find(cls, file: Any, source: Any, options: ValueOptions) -> "_Int96 | None":
        """Return None if the file has no such timestamps, or if none can be beyond the unit."""
        import pyarrow.parquet

        leaves = [file.schema.column(number) for number in range(len(file.schema.names))]
        paths = [leaf.path for leaf in leaves if leaf.physical_type == "INT96"]
        if not paths or options.int96 not in _PER_UNIT:
            return None
        names = list(dict.fromkeys(path.split(".")[0] for path in paths))
        all_names = file.schema_arrow.names
        places = {all_names.index(name): place for place, name in enumerate(names)}
        again = pyarrow.parquet.ParquetFile(source, metadata=file.metadata, coerce_int96_timestamp_unit="ms")
        return cls(again, paths, places, options)

    def begin(self, groups: Sequence[int]) -> None:
        self._batches = self._file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=self._paths)
        self._read = []

    def take(self, count: int) -> Any:
        """Return the next rows as a table."""
        import pyarrow

        while sum(batch.num_rows for batch in self._read) < count:
            self._read.append(next(self._batches))
        table = pyarrow.Table.from_batches(self._read)
        self._read = table.slice(count).to_batches()
        return table.slice(0, count)

    def check(self, table: Any, place: int, name: str, values: list[object], errors: dict[int, DataException]) -> None:
        """Add an error for each row that has a timestamp beyond the unit in a column, or make its value null."""
        if place not in self._places:
            return
        column = table.column(self._places[place]).combine_chunks()
        if not self._is_beyond(column):
            return
        for number in range(len(column)):
            if self._is_beyond(column.slice(number, 1)):
                values[number] = None if self._null else _milliseconds_of(column[number])
                if not self._null:
                    reason = f"the INT96 timestamp is beyond what 64 bits of the unit {self._unit} hold"
                    remedy = f"Set {INT96} to a coarser unit, or correct the row"
                    errors.setdefault(number, DataException(reason, column=name, remedy=remedy, settings=(INT96,)))

    def _is_beyond(self, column: Any) -> bool:
        import pyarrow
        import pyarrow.compute

        types = pyarrow.types
        if types.is_timestamp(column.type):
            bounds = pyarrow.compute.min_max(column.cast(pyarrow.int64())).as_py()
            return bounds["min"] is not None and (bounds["min"] < -self._most or bounds["max"] > self._most)
        if types.is_map(column.type):
            return self._is_beyond(column.keys) or self._is_beyond(column.items)
        if types.is_struct(column.type) or types.is_list(column.type) or types.is_large_list(column.type):
            parts = column.flatten()
            return any(map(self._is_beyond, parts if types.is_struct(column.type) else [parts]))
        return False


def _milliseconds_of(scalar: Any) -> object:
    """Return a timestamp's number, for the dead letter; None for a list or struct of timestamps."""
    return getattr(scalar, "value", None) if str(scalar.type).startswith("timestamp") else None


class _Witness:
    """Passes calls on to a stream, and remembers whether one failed: Arrow's errors for broken files are OSErrors,
    as those of a place are.
    """

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.failed = False

    def read(self, size: int = -1) -> Any:
        return self._call(self._stream.read, size)

    def seek(self, offset: int, whence: int = 0) -> Any:
        return self._call(self._stream.seek, offset, whence)

    def tell(self) -> Any:
        return self._call(self._stream.tell)

    def close(self) -> None:
        """Do nothing: whoever opened the stream closes it."""

    def _call(self, function: Callable[..., Any], *arguments: int) -> Any:
        try:
            return function(*arguments)
        except BaseException:
            self.failed = True
            raise
