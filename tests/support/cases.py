"""Cases of a parametrised test that `make test` leaves to others."""

from collections.abc import Container, Iterable
from typing import Any

import pytest


def mark_cases(
    cases: Iterable[str], *, slow: Container[str] = frozenset(), thorough: Container[str] = frozenset()
) -> list[Any]:
    """The cases for `parametrize`, those in `slow` and in `thorough` with that mark; of both, with the first."""

    def mark(case: str) -> Any:
        if case in slow:
            return pytest.param(case, marks=pytest.mark.slow)
        return pytest.param(case, marks=pytest.mark.thorough) if case in thorough else case

    return [mark(case) for case in cases]
