"""The file formats that FilesSource reads."""

from collections.abc import Mapping
from typing import Final

from ringfence.connectors.builtin.files import settings as names
from ringfence.connectors.builtin.files.formats.avro import AvroReader
from ringfence.connectors.builtin.files.formats.base import Columns, FormatError, FormatReader, Rows, Unreadable
from ringfence.connectors.builtin.files.formats.parquet import ParquetReader
from ringfence.connectors.builtin.files.formats.text import CsvReader, JsonLinesReader, TextReader

FORMATS: Final[Mapping[str, type[FormatReader]]] = dict(
    zip(names.FORMATS, (TextReader, JsonLinesReader, CsvReader, ParquetReader, AvroReader), strict=True)
)

__all__ = ["FORMATS", "Columns", "FormatError", "FormatReader", "Rows", "Unreadable"]
