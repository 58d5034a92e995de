"""Makes the plan of a table: its files as they are now, and the parts that these are divided into."""

import time
import uuid
from contextlib import closing
from typing import Final

import pyarrow
import pyarrow.parquet

from ringfence.connectors.api import ConnectorError, RetriableError
from ringfence.connectors.builtin.files.places import FileChanged, FileInfo, Place
from ringfence.connectors.builtin.spark_table.plan import Head, Part, check_columns, check_names, divide, is_data

_SLICE_SECONDS: Final = 0.5


class Planning:
    """Reads the footers of all files, some at a time. Raises `ConnectorError`, OSError."""

    def __init__(self, place: Place, part_rows: int, preview: bool) -> None:
        """preview: plan the first file only."""
        listed = sorted(place.list())
        check_names([file.name for file in listed])
        files = [file for file in listed if is_data(file.name)]
        if not files:
            raise ConnectorError(
                f"{place.address} has no files. Write the table, then restart the task: its plan is made once."
            )
        self._place = place
        self._part_rows = part_rows
        self._files = files[:1] if preview else files
        self._next = 0
        self._id = uuid.uuid4().hex
        self._count = 0

    @property
    def head(self) -> Head | None:
        """The whole plan, once all parts were taken."""
        return Head(self._id, self._count) if self._next == len(self._files) else None

    def take(self) -> list[tuple[int, Part]]:
        """The next parts with their numbers, of as many files as half a second is enough for."""
        end = time.monotonic() + _SLICE_SECONDS
        found: list[tuple[int, Part]] = []
        while self._next < len(self._files):
            file = self._files[self._next]
            for first, after in divide(self._read_groups(file), self._part_rows):
                found.append((self._count, Part(self._id, file.name, file.etag, first, after, first)))
                self._count += 1
            self._next += 1
            if time.monotonic() >= end:
                break
        return found

    def _read_groups(self, file: FileInfo) -> list[int]:
        """How many rows each row group of a file has."""
        try:
            with closing(self._place.open(file)) as opened:
                try:
                    metadata = pyarrow.parquet.ParquetFile(opened.stream).metadata
                except pyarrow.ArrowInvalid as error:
                    opened.check()
                    raise ConnectorError(
                        f"File {file.name} is not a Parquet file: {error}. A table has no other files. Move it, or "
                        "give its name an underscore in front, and restart the task."
                    ) from error
                opened.check()
                check_columns(metadata.schema.names)
                return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        except FileChanged as error:
            raise RetriableError(f"File {file.name} was written or removed while the plan was made.") from error
