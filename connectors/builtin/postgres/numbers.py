"""Types of numbers without an equivalent in Kafka Connect: decimals of any scale, and money."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from ringfence.connectors.api import Struct
from ringfence.connectors.api.schemas import BYTES, INT32
from ringfence.connectors.api.schemas import struct as struct_of
from ringfence.connectors.converters.json_encoding import to_signed_bytes

Read = Callable[[bytes], Any]
Handle = Callable[[str, bytes], None]
"""`(reason, raw)`: see `TypeSettings.handle_unsupported`."""
_NOT_FINITE: Final = "a decimal cannot be NaN or infinite"

VARIABLE_SCALE_DECIMAL: Final = struct_of(
    {"scale": INT32, "value": BYTES},
    "io.debezium.data.VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
)


def variable_decimal(unsupported: Handle) -> Read:
    """Return a reader of decimals of any scale. unsupported: for NaN and infinities."""

    def read(raw: bytes) -> Struct | None:
        text = raw.decode()
        whole, _, fraction = text.partition(".")
        if not whole.lstrip("-").isdecimal():
            unsupported(_NOT_FINITE, raw)
            return None
        fraction = fraction.rstrip("0")
        return Struct.of(VARIABLE_SCALE_DECIMAL, [len(fraction), to_signed_bytes(int(whole + fraction))])

    return read


def exact_decimal(scale: int, unsupported: Handle) -> Read:
    """Return a reader of decimals with this scale. unsupported: for NaN and infinities."""

    def read(raw: bytes) -> Decimal | None:
        number = Decimal(raw.decode())
        if not number.is_finite():
            unsupported(_NOT_FINITE, raw)
            return None
        return number if scale >= 0 else number.quantize(Decimal(1).scaleb(-scale))

    return read


def money(digits: int) -> Read:
    """Return a reader of money in the C locale: `$1,234.50`, `-$1.00`."""

    def read(raw: bytes) -> Decimal:
        text = raw.decode()
        number = Decimal("".join(char for char in text if char in "0123456789."))
        negative = "-" in text or text.startswith("(")
        return (-number if negative else number).quantize(Decimal(1).scaleb(-digits))

    return read
