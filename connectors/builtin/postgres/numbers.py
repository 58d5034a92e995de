"""Types of numbers without an equivalent in Kafka Connect: decimals of any scale, money, points."""

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from ringfence.connectors.api import Struct
from ringfence.connectors.api.schemas import BYTES, FLOAT64, INT32
from ringfence.connectors.api.schemas import struct as struct_of
from ringfence.connectors.converters.json_encoding import to_signed_bytes

Read = Callable[[bytes], Any]

VARIABLE_SCALE_DECIMAL: Final = struct_of(
    {"scale": INT32, "value": BYTES},
    "io.debezium.data.VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
)
POINT: Final = struct_of(
    {"x": FLOAT64, "y": FLOAT64, "wkb": BYTES.but(optional=True), "srid": INT32.but(optional=True)},
    "io.debezium.data.geometry.Point",
    version=1,
    doc="Geometry (POINT)",
)


def read_point(raw: bytes) -> Struct:
    x, y = map(float, raw.strip(b"()").split(b","))
    return Struct.of(POINT, [x, y, struct.pack("<BIdd", 1, 1, x, y), None])


def variable_decimal(raw: bytes) -> Struct | None:
    text = raw.decode()
    whole, _, fraction = text.partition(".")
    if not whole.lstrip("-").isdecimal():
        return None  # NaN and infinities: Kafka Connect's decimals cannot represent them
    fraction = fraction.rstrip("0")
    return Struct.of(VARIABLE_SCALE_DECIMAL, [len(fraction), to_signed_bytes(int(whole + fraction))])


def exact_decimal(scale: int) -> Read:
    def read(raw: bytes) -> Decimal | None:
        number = Decimal(raw.decode())
        if not number.is_finite():
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
