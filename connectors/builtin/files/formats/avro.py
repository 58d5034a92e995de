"""Avro object container files: records with the schema in the file."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO, ClassVar

from ringfence.connectors.api import ParsedConfig, Struct
from ringfence.connectors.builtin.files.formats.base import FormatError, FormatReader, Rows


class AvroReader(FormatReader):
    """Each record is a struct. Blocks before the position are skipped without decoding them."""

    unit: ClassVar[str] = "row"
    module: ClassVar[str | None] = "fastavro"
    compressible: ClassVar[bool] = False

    def __init__(self, file: BinaryIO | Any, position: int, settings: ParsedConfig) -> None:
        from ringfence.connectors.avro.container import ERRORS, open_blocks
        from ringfence.connectors.builtin.files.formats.avro_types import to_connect

        try:
            schema, blocks = open_blocks(file)
            self._schema, self._value_of = to_connect(schema)
        except FormatError:
            raise
        except ERRORS as error:
            raise FormatError(f"it is not an Avro file: {error}") from error
        self._errors = ERRORS
        self._row = position
        self._records = self._read_records(blocks, position)
        self._pending = next(self._records, None)

    def read(self, limit: int) -> Rows:
        values: list[object] = []
        first = self._row + 1
        while self._pending is not None and len(values) < limit:
            values.append(self._pending)
            self._row += 1
            self._pending = next(self._records, None)
        return Rows(values, range(first, self._row + 1), self._schema)

    @property
    def at_end(self) -> bool:
        return self._pending is None

    def _read_records(self, blocks: Iterator[tuple[int, Iterator[Any]]], skip: int) -> Iterator[Struct]:
        value_of = self._value_of
        try:
            for count, records in blocks:
                if skip >= count:
                    skip -= count
                    continue
                yield from map(value_of, islice(records, skip, None))
                skip = 0
        except self._errors as error:
            raise FormatError(f"it cannot be read as Avro after record {self._row}: {error}") from error
