"""Avro object container files: records with the schema in the file."""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple

from ringfence.connectors.api import DataException, ParsedConfig
from ringfence.connectors.builtin.files.formats.base import FormatError, FormatReader, Rows, Unreadable
from ringfence.connectors.builtin.files.value_settings import options_of, repair_texts
from ringfence.connectors.row_records import row_text

_RUN: Final = 1000


class _Run(NamedTuple):
    """Consecutive records; end: the position after the last one, which may be more than one behind that before it."""

    values: list[object]
    end: int
    unreadable: Mapping[int, Unreadable] = {}


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
        self._runs = self._read_blocks(position)
        self._run: _Run | None = None
        self._used = 0
        """The number of records of the run that were returned."""
        self._advance()

    def read(self, limit: int) -> Rows:
        if self._broken is not None:
            raise self._broken
        if self._run is None:
            return Rows([], [], self._schema)
        start, run = self._used, self._run
        values = run.values[start : start + limit]
        self._used, first = start + len(values), self._row + 1
        whole = self._used == len(run.values)
        self._row = run.end if whole else self._row + len(values)
        positions = [*range(first, first + len(values) - 1), self._row]
        unreadable = {
            number - start: run.unreadable[number] for number in run.unreadable if start <= number < self._used
        }
        if whole:
            self._advance()
        return Rows(values, positions, self._schema, unreadable)

    @property
    def at_end(self) -> bool:
        return self._run is None and self._broken is None

    def _advance(self) -> None:
        self._used = 0
        try:
            self._run = next(self._runs, None)
        except self._errors as error:
            self._run = None
            self._broken = FormatError(f"it cannot be read as Avro after record {self._row}: {error}")
            self._broken.__cause__ = error

    def _read_blocks(self, skip: int) -> Iterator[_Run]:
        """Yield the records after a position."""
        from ringfence.connectors.avro.container import Damage

        at = 0
        for block in self._blocks:
            if isinstance(block, Damage):
                at += 1
                if at > skip:
                    reason = f"bytes {block.start} to {block.end} are damaged ({block.reason})"
                    problem = DataException(reason, row=str(at), remedy="Restore them from the original")
                    yield _alone(Unreadable(problem, ""), at)
                continue
            if at + block.length > skip:
                yield from self._read_block(block, at, skip)
            at += block.length

    def _read_block(self, block: Any, at: int, skip: int) -> Iterator[_Run]:
        number, convert = at, self._value_of
        problem: Exception | None = None
        values: list[object] = []
        unreadable: dict[int, Unreadable] = {}
        try:
            for record in block.records:
                number += 1
                if number <= skip:
                    continue
                try:
                    values.append(convert(record))
                except DataException as error:
                    unreadable[len(values)] = self._refuse(record, number, error)
                    values.append(None)
                if len(values) == _RUN:
                    yield _Run(values, number, unreadable)
                    values, unreadable = [], {}
        except self._errors as error:
            problem = error
        if values:
            yield _Run(values, number, unreadable)
        if isinstance(problem, UnicodeDecodeError):
            yield from self._read_leniently(block, at, max(number, skip))
        elif problem is not None:
            yield self._refuse_rest(number, at + block.length, problem)

    def _read_leniently(self, block: Any, at: int, skip: int) -> Iterator[_Run]:
        """Yield the records of a block with texts that are not UTF-8, after a position."""
        number = at
        try:
            for record in block.lenient():
                number += 1
                if number > skip:
                    yield self._convert_repaired(record, number)
        except self._errors as error:
            yield self._refuse_rest(number, at + block.length, error)

    def _convert_repaired(self, record: Any, number: int) -> _Run:
        try:
            return _Run([self._value_of(repair_texts(record, self._options.bad_text))], number)
        except DataException as error:
            return _alone(self._refuse(record, number, error), number)

    @staticmethod
    def _refuse(record: Any, number: int, error: DataException) -> Unreadable:
        return Unreadable(error.at(row=str(number)), row_text([*record], [*record.values()]))

    @staticmethod
    def _refuse_rest(number: int, end: int, error: Exception) -> _Run:
        reason = f"the records {number + 1} to {end} cannot be decoded ({error})"
        problem = DataException(reason, row=str(number + 1), remedy="Write the file again")
        return _alone(Unreadable(problem, ""), end)


def _alone(unreadable: Unreadable, end: int) -> _Run:
    return _Run([None], end, {0: unreadable})
