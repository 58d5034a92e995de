"""Cases of a parametrised test that `make test` leaves to `make test-all`."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def mark_slow(cases: Iterable[str], slow: Container[str]) -> list[Any]:
    """The cases for `parametrize`, those in `slow` with that mark."""
    return [pytest.param(each, marks=pytest.mark.slow) if each in slow else each for each in cases]
