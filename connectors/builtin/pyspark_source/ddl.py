"""Parses schemas as text, such as `id bigint, tags array<string>`. PySpark parses them in a JVM, which tasks do not
have.
"""

import re
from typing import Final

from pyspark.sql import types as spark

from ringfence.connectors.api import ConnectorError

_ATOMS: Final[dict[str, spark.DataType]] = {
    "boolean": spark.BooleanType(),
    "byte": spark.ByteType(),
    "tinyint": spark.ByteType(),
    "short": spark.ShortType(),
    "smallint": spark.ShortType(),
    "int": spark.IntegerType(),
    "integer": spark.IntegerType(),
    "long": spark.LongType(),
    "bigint": spark.LongType(),
    "float": spark.FloatType(),
    "real": spark.FloatType(),
    "double": spark.DoubleType(),
    "string": spark.StringType(),
    "binary": spark.BinaryType(),
    "date": spark.DateType(),
    "timestamp": spark.TimestampType(),
    "timestamp_ntz": spark.TimestampNTZType(),
}
_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)+`|[A-Za-z_]\w*|\d{1,9}|[<>(),:])")


def parse_ddl(text: str) -> spark.StructType:
    """Parse a schema. Raises `ConnectorError` for text that it does not understand."""
    return _Parser(text).read_fields(end="")


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._error()
            self._tokens.append(match[1])
            at = match.end()

    def read_fields(self, end: str) -> spark.StructType:
        """Read `name type, name: type …` up to a token, or to the end of the text."""
        fields = []
        while True:
            name = self._take().strip("`").replace("``", "`")
            if self._peek() == ":":
                self._take()
            kind = self._read_type()
            nullable = True
            if self._peek().lower() == "not":
                self._take()
                if self._take().lower() != "null":
                    raise self._error()
                nullable = False
            fields.append(spark.StructField(name, kind, nullable))
            if self._peek() == end:
                if end:
                    self._take()
                return spark.StructType(fields)
            self._expect(",")

    def _read_type(self) -> spark.DataType:
        word = self._take().lower()
        if word in ("decimal", "numeric"):
            return self._read_decimal()
        if word == "array":
            self._expect("<")
            inner = self._read_type()
            self._expect(">")
            return spark.ArrayType(inner)
        if word == "map":
            self._expect("<")
            key = self._read_type()
            self._expect(",")
            value = self._read_type()
            self._expect(">")
            return spark.MapType(key, value)
        if word == "struct":
            self._expect("<")
            return self.read_fields(end=">")
        if word in _ATOMS:
            return _ATOMS[word]
        raise self._error()

    def _read_decimal(self) -> spark.DecimalType:
        precision, scale = 10, 0
        if self._peek() == "(":
            self._take()
            precision = int(self._take())
            if self._peek() == ",":
                self._take()
                scale = int(self._take())
            self._expect(")")
        return spark.DecimalType(precision, scale)

    def _peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _take(self) -> str:
        if not self._tokens:
            raise self._error()
        return self._tokens.pop(0)

    def _expect(self, token: str) -> None:
        if self._take() != token:
            raise self._error()

    def _error(self) -> ConnectorError:
        return ConnectorError(
            f"The data source's schema {self._text!r} cannot be read as columns with types. Let its schema() return a "
            "StructType."
        )
