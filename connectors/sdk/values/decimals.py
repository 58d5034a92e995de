"""Gives decimals the scale of their schema, without rounding."""

from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Final

from ringfence.connectors.api import DataException

_EXACT: Final = Context(prec=2000, traps=[Inexact, InvalidOperation])
"""Python's own context has 28 digits; databases declare up to 1000, and scales from -1000 to 1000."""


def _refuse(reason: str, value: object) -> DataException:
    return DataException(reason, value=value)


def exact_decimal(scale: int, refuse: Callable[[str, object], DataException] = _refuse) -> Callable[[Decimal], Decimal]:
    """Return a function that gives decimals `scale` digits after the point.

    It raises what `refuse(reason, value)` returns for a decimal that has more digits, is infinite, or is no number.
    """
    quantize, step = _EXACT.quantize, Decimal(1).scaleb(-scale)

    def exact(value: Decimal) -> Decimal:
        try:
            number = quantize(value, step)
        except (Inexact, InvalidOperation) as error:
            raise refuse(
                "the decimal has more digits than its type" if value.is_finite() else _NO_NUMBER, value
            ) from error
        if number.is_nan():
            raise refuse(_NO_NUMBER, value)
        return number

    return exact


_NO_NUMBER: Final = "the decimal is not a finite number"
