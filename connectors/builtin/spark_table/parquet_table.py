"""Parquet files in a folder, as Spark, Delta and Iceberg write them. A part is some row groups of one content of one
file.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, NamedTuple

from ringfence.connectors.api import (
    ConnectorError,
    DataException,
    ParsedConfig,
    RetriableError,
    Schema,
    SourceOffset,
    Struct,
)
from ringfence.connectors.api import schemas as connect
from ringfence.connectors.builtin.files.formats import FormatError, Rows
from ringfence.connectors.builtin.files.formats.parquet import ParquetReader, open_parquet
from ringfence.connectors.builtin.files.places import FileChanged, FileInfo, open_place, require
from ringfence.connectors.builtin.files.reading import FileOffset, FileReading
from ringfence.connectors.builtin.files.settings import URL
from ringfence.connectors.builtin.spark_table import settings as names
from ringfence.connectors.builtin.spark_table.plan import Batch, Table, part_error
from ringfence.connectors.builtin.spark_table.snapshots import (
    DELTA_LOG,
    DeltaSnapshot,
    FileConstants,
    FolderSnapshot,
    IcebergSnapshot,
    Snapshot,
    check_columns,
    folder_values,
    is_iceberg,
    make_column,
)
from ringfence.connectors.sdk.diagnosis import summarise
from ringfence.connectors.sdk.row_records import RowReader

_LIST_SECONDS: Final = 8.0
"""How long a test of the connection lists files."""


class FilePart(NamedTuple):
    """Consecutive rows of one content of one file: from `first` up to, but not including, `end`.

    row: the next row to read. columns: those that are not in the file; None: those in the names of its folders.
    """

    plan: str
    file: str
    etag: str
    first: int
    end: int
    row: int
    columns: FileConstants | None = None

    @property
    def done(self) -> bool:
        return self.row >= self.end

    def as_json(self) -> dict[str, object]:
        return {key: value for key, value in self._asdict().items() if key != names.COLUMNS or value is not None}


def parse_part(offset: SourceOffset) -> FilePart:
    """Parse a source offset. Raises `ConnectorError`."""
    texts = [offset.get(name) for name in (names.PLAN, names.FILE, names.ETAG)]
    numbers = [offset.get(name) for name in (names.FIRST, names.END, names.ROW)]
    columns = offset.get(names.COLUMNS)
    right = all(isinstance(each, str) for each in texts) and all(type(each) is int for each in numbers)
    if right and (columns is None or isinstance(columns, dict)):
        part = FilePart(*texts, *numbers, columns)  # type: ignore[arg-type, call-arg]
        if 0 <= part.first <= part.row <= part.end:
            return part
    raise part_error(offset, FilePart._fields, "with row between first and end")


class _Footer(NamedTuple):
    """groups: the number of rows in each row group of a file. columns: those in it. constants: those that are not."""

    groups: Sequence[int]
    columns: Sequence[str]
    constants: FileConstants | None


class ParquetTable(Table[FilePart]):
    """All rows of all Parquet files in a folder, or of one version of the Delta or Iceberg table in it."""

    def __init__(self, settings: ParsedConfig) -> None:
        require("pyarrow", "Parquet files")
        self._settings = settings
        self._place = open_place(settings.string(URL), settings)
        self._reading: FileReading | None = None
        self.address = self._place.address
        self.partition = {names.URL_KEY: self.address}

    def check(self) -> None:
        self._place.check()

    def summarise(self) -> str:
        self.check()
        ends_at = time.monotonic() + _LIST_SECONDS
        files: list[FileInfo] = []
        for file in self._place.list():
            files.append(file)
            if time.monotonic() > ends_at:
                return f"{len(files):,} files and more."
        snapshot = self._find_snapshot(sorted(files))
        if not snapshot.files:
            raise ConnectorError(f"{self.address} contains no files of a table. Write the table first.")
        footer = self._read_footer(snapshot.files[0], snapshot)
        added = folder_values(snapshot.files[0].name) if footer.constants is None else footer.constants
        columns = [*footer.columns, *(name for name in added if name not in footer.columns)]
        version = f" version {snapshot.version}" if snapshot.version else ""
        count = f"{len(snapshot.files):,} file{'' if len(snapshot.files) == 1 else 's'}"
        return f"{snapshot.kind}{version}, {count}, {summarise('column', columns)}."

    def divide(self, plan: str, preview: bool) -> Iterator[FilePart]:
        files = sorted(self._place.list())
        snapshot = self._find_snapshot(files)
        self.version = snapshot.version
        if not snapshot.files and snapshot.version is None:
            raise ConnectorError(
                f"{self.address} contains no files. Write the table, then restart the task: its plan is made only once."
            )
        for file in snapshot.files[:1] if preview else snapshot.files:
            footer = self._read_footer(file, snapshot)
            for first, after in divide(footer.groups, self._settings.integer(names.PART_ROWS)):
                yield FilePart(plan, file.name, file.etag, first, after, first, footer.constants)

    def _find_snapshot(self, files: Sequence[FileInfo]) -> Snapshot:
        version = str(self._settings.get(names.VERSION) or "").strip() or None
        if any(file.name.startswith(DELTA_LOG) for file in files):
            return DeltaSnapshot(self._place, files, version)
        if is_iceberg(files):
            metadata = str(self._settings.get(names.METADATA) or "").strip() or None
            return IcebergSnapshot(self._place, files, version, metadata)
        if version is not None:
            raise ConnectorError(f"{names.VERSION}: a folder without a Delta or Iceberg table has no versions.")
        return FolderSnapshot(files)

    def parse_part(self, offset: SourceOffset) -> FilePart:
        return parse_part(offset)

    def read(self, part: FilePart, limit: int) -> Batch[FilePart]:
        try:
            if self._reading is None:
                at = FileOffset(part.etag, ParquetReader.unit, part.row, done=False)
                file = FileInfo(part.file, part.etag, 0.0)
                self._reading = FileReading(self._place, file, ParquetReader, self._settings, at)
            columns_read = self._reading.read_columns(min(limit, part.end - part.row))
            rows = self._reading.read(min(limit, part.end - part.row)) if columns_read is None else None
        except FileChanged as error:
            raise self._change_error(part) from error
        first = part.row + 1

        def after_row(number: int) -> FilePart:
            return part._replace(row=first + number)

        after = part._replace(row=self._reading.position)
        if columns_read is not None:
            schema, columns = _add_columns(part, columns_read.schema, columns_read.values)
            return Batch(schema, columns, after, after_row)
        if rows is None or not rows.values or rows.schema is None:
            raise self._change_error(part)
        schema, columns = _add_columns(part, rows.schema, _to_columns(rows))
        value_of = [_require_supported for _ in columns]
        topic = self._settings.string(names.TOPIC)
        reader = RowReader(f"File {part.file}", topic, schema, value_of, lambda row: "")
        return Batch(schema, columns, after, after_row, reader)

    def release(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def close(self) -> None:
        self.release()
        self._place.close()

    def _read_footer(self, file: FileInfo, snapshot: Snapshot) -> _Footer:
        try:
            with closing(self._place.open(file)) as opened:
                try:
                    parquet, _ = open_parquet(opened.stream)
                except FormatError as error:
                    opened.check()
                    raise ConnectorError(
                        f"File {file.name}: {error}. A table must not contain other files. Move it, or rename it with "
                        "a leading underscore, and restart the task."
                    ) from error
                metadata, schema = parquet.metadata, parquet.schema_arrow
                opened.check()
        except FileChanged as error:
            raise RetriableError(f"File {file.name} was changed or deleted while the plan was made.") from error
        if not schema.names and metadata.num_rows:
            raise ConnectorError(f"File {file.name} has rows without columns. Move it out of the table.")
        check_columns(schema.names)
        groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        return _Footer(groups, schema.names, snapshot.tell_columns(file, schema))

    def _change_error(self, part: FilePart) -> ConnectorError:
        return ConnectorError(
            f"File {part.file} of {self.address} was changed or deleted after the plan was made, and its rows "
            f"{part.row} to {part.end} are not read yet: the plan no longer fits the table. Restore the former file, "
            "with its modification time, and restart the task; or stop the connector, reset its offsets and resume "
            "it: then the whole table is written again in its current state."
        )


def divide(groups: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of a file's parts: whole row groups, as many as are needed for `rows` rows. groups: rows of
    each.
    """
    first = end = 0
    for count in groups:
        end += count
        if end - first >= rows:
            yield first, end
            first = end
    if end > first:
        yield first, end


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Stands for a value that no record can hold."""

    error: DataException

    def __str__(self) -> str:
        return str(self.error.value)


def _to_columns(rows: Rows) -> list[list[object]]:
    """Return the values of each field, with a `_Refusal` in each row that cannot be read."""
    structs = [row.values for row in rows.values if isinstance(row, Struct)]
    columns: list[list[object]] = [list(values) for values in zip(*structs, strict=True)]
    names = rows.schema.names if rows.schema is not None else ()
    for number, (error, _) in rows.unreadable.items():
        place = names.index(error.column) if error.column in names else 0
        columns[place][number] = _Refusal(error)
    return columns


def _require_supported(value: object) -> object:
    """Return the value. Raises `DataException` for one that no record can hold."""
    if isinstance(value, _Refusal):
        raise value.error
    return value


def _add_columns(
    part: FilePart, schema: Schema, columns: Sequence[Sequence[object]]
) -> tuple[Schema, Sequence[Sequence[object]]]:
    """Append the columns that are not in the file to its own."""
    constants = part.columns
    if constants is None:
        constants = {name: ["string", value] for name, value in folder_values(part.file).items()}
    schemas = {field.name: field.schema for field in schema.fields}
    added = {
        name: make_column(name, str(type), value, len(columns[0]))
        for name, (type, value) in constants.items()
        if name not in schemas
    }
    if not added:
        return schema, columns
    return (
        connect.struct({**schemas, **{name: field_schema for name, (field_schema, _) in added.items()}}),
        [*columns, *(values for _, values in added.values())],
    )
