"""Converters for numbers and booleans: a fixed number of bytes, big-endian."""

import struct
from collections.abc import Mapping
from typing import ClassVar, Final

from ringfence.connectors.api import Schema, SchemaType
from ringfence.connectors.converters.base import Converter, HeaderConverter, refuse

_JAVA: Final = "org.apache.kafka.connect.converters."


class _Number(Converter, HeaderConverter):
    """Numbers of one width. Python has one integer type: without a schema, any value that fits is accepted."""

    form: ClassVar[struct.Struct]
    holds: ClassVar[SchemaType]
    kinds: ClassVar[tuple[type, ...]] = (int,)
    what: ClassVar[str]

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Do nothing: there are no settings."""

    def from_record(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if value is None:
            return None
        if schema is not None and schema.type is not self.holds:
            raise refuse(self, topic, value, f"it takes {self.what}, but the schema is {schema}.")
        if isinstance(value, self.kinds) and not isinstance(value, bool):
            try:
                return self.form.pack(value)
            except (struct.error, OverflowError) as error:
                raise refuse(self, topic, value, f"it takes {self.what}, but the number has more bits.") from error
        raise refuse(self, topic, value, f"it takes {self.what}; use JsonConverter for other values.")

    def from_header(self, topic: str, name: str, value: object, schema: Schema | None = None) -> bytes | None:
        return self.from_record(topic, value, schema)


class ShortConverter(_Number):
    """Integers of 16 bits."""

    aliases = (_JAVA + "ShortConverter",)
    holds = SchemaType.INT16
    form = struct.Struct(">h")
    what = "integers of 16 bits"


class IntegerConverter(_Number):
    """Integers of 32 bits."""

    aliases = (_JAVA + "IntegerConverter",)
    holds = SchemaType.INT32
    form = struct.Struct(">i")
    what = "integers of 32 bits"


class LongConverter(_Number):
    """Integers of 64 bits."""

    aliases = (_JAVA + "LongConverter",)
    holds = SchemaType.INT64
    form = struct.Struct(">q")
    what = "integers of 64 bits"


class FloatConverter(_Number):
    """Floating point numbers of 32 bits."""

    aliases = (_JAVA + "FloatConverter",)
    holds = SchemaType.FLOAT32
    form = struct.Struct(">f")
    kinds = (float, int)
    what = "floating point numbers of 32 bits"


class DoubleConverter(_Number):
    """Floating point numbers of 64 bits."""

    aliases = (_JAVA + "DoubleConverter",)
    holds = SchemaType.FLOAT64
    form = struct.Struct(">d")
    kinds = (float, int)
    what = "floating point numbers of 64 bits"


class BooleanConverter(Converter, HeaderConverter):
    """One byte: 1 for true, 0 for false."""

    aliases = (_JAVA + "BooleanConverter",)

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Do nothing: there are no settings."""

    def from_record(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if schema is not None and schema.type is not SchemaType.BOOLEAN:
            raise refuse(self, topic, value, f"it takes booleans, but the schema is {schema}.")
        if value is None:
            return None
        if isinstance(value, bool):
            return b"\x01" if value else b"\x00"
        raise refuse(self, topic, value, "it takes booleans; use JsonConverter or StringConverter for other values.")

    def from_header(self, topic: str, name: str, value: object, schema: Schema | None = None) -> bytes | None:
        return self.from_record(topic, value, schema)
