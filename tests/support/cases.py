"""Marks for some tests: cases of a parametrised one that `make test` leaves to others, and all in a folder."""

from collections.abc import Container, Iterable
from pathlib import Path
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


def tests_in(folder: Path, items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Those below a folder. Each `pytest_collection_modifyitems` gets the tests of all folders."""
    return [item for item in items if folder in item.path.parents]
