"""Avro object container files: records with the schema in the file."""

from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar

from ringfence.connectors.api import DataException, ParsedConfig
from ringfence.connectors.builtin.files.formats.base import FormatError, FormatReader, Rows, Unreadable
from ringfence.connectors.builtin.files.value_settings import options_of, repair_texts
from ringfence.connectors.row_records import row_text


class AvroReader(FormatReader):
    """Each record is a struct. Blocks before the position are skipped without decoding them.

    What cannot be read is one record: a damaged place up to the next sync marker, or the rest of a block behind a
    record that cannot be decoded. The latter's position is that behind all records of the block.
    """

    unit: ClassVar[str] = "row"
    module: ClassVar[str | None] = "fastavro"
    compressible: ClassVar[bool] = False

    def __init__(self, file: BinaryIO | Any, position: int, settings: ParsedConfig) -> None:
        from ringfence.connectors.avro.container import ERRORS, BlockReader
        from ringfence.connectors.builtin.files.formats.avro_types import to_connect

        self._options = options_of(settings)
        try:
            self._blocks = BlockReader(file)
            self._schema, self._value_of = to_connect(self._blocks.declared, self._options)
        except FormatError:
            raise
        except ERRORS as error:
            raise FormatError(f"it is not an Avro file: {error}") from error
        self._errors = ERRORS
        self._row = position
        self._broken: FormatError | None = None
        """Why the file cannot be read on, once the records before are read."""
        self._records = self._read_blocks(position)
        self._next: tuple[object, int] | None = None
        try:
            self._next = next(self._records, None)
        except ERRORS as error:
            self._break(error)

    def read(self, limit: int) -> Rows:
        values: list[object] = []
        positions: list[int] = []
        unreadable: dict[int, Unreadable] = {}
        try:
            while self._next is not None and len(values) < limit:
                value, self._row = self._next
                if value.__class__ is Unreadable:
                    unreadable[len(values)] = value
                values.append(value)
                positions.append(self._row)
                self._next = next(self._records, None)
        except self._errors as error:
            self._break(error)
        if not values and self._broken is not None:
            raise self._broken
        return Rows(values, positions, self._schema, unreadable)

    @property
    def at_end(self) -> bool:
        return self._next is None and self._broken is None

    def _break(self, error: Exception) -> None:
        self._next = None
        self._broken = FormatError(f"it cannot be read as Avro after record {self._row}: {error}")
        self._broken.__cause__ = error

    def _read_blocks(self, skip: int) -> Iterator[tuple[object, int]]:
        """Yield the records after a position: the value, or why there is none, and the position after it."""
        from ringfence.connectors.avro.container import Damage

        at = 0
        for block in self._blocks:
            if isinstance(block, Damage):
                at += 1
                if at > skip:
                    reason = f"bytes {block.start} to {block.end} are damaged ({block.reason})"
                    problem = DataException(reason, row=str(at), remedy="Restore them from the original")
                    yield Unreadable(problem, ""), at
                continue
            if at + block.length > skip:
                yield from self._read_block(block, at, skip)
            at += block.length

    def _read_block(self, block: Any, at: int, skip: int) -> Iterator[tuple[object, int]]:
        number, end, convert = at, at + block.length, self._value_of
        try:
            for record in block.records:
                number += 1
                if number <= skip:
                    continue
                try:
                    value: object = convert(record)
                except DataException as error:
                    value = self._refuse(record, number, error)
                yield value, number
        except UnicodeDecodeError:
            yield from self._read_leniently(block, at, max(number, skip))
        except self._errors as error:
            yield self._refuse_rest(number, end, error), end

    def _read_leniently(self, block: Any, at: int, skip: int) -> Iterator[tuple[object, int]]:
        """Yield the records of a block with texts that are not UTF-8, after a position."""
        number, end = at, at + block.length
        try:
            for record in block.lenient():
                number += 1
                if number > skip:
                    yield self._convert_repaired(record, number), number
        except self._errors as error:
            yield self._refuse_rest(number, end, error), end

    def _convert_repaired(self, record: Any, number: int) -> object:
        try:
            return self._value_of(repair_texts(record, self._options.bad_text))
        except DataException as error:
            return self._refuse(record, number, error)

    @staticmethod
    def _refuse(record: Any, number: int, error: DataException) -> Unreadable:
        return Unreadable(error.at(row=str(number)), row_text([*record], [*record.values()]))

    @staticmethod
    def _refuse_rest(number: int, end: int, error: Exception) -> Unreadable:
        reason = f"the records {number + 1} to {end} cannot be decoded ({error})"
        return Unreadable(DataException(reason, row=str(number + 1), remedy="Write the file again"), "")
