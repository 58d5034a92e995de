"""One running platform for all of them. The tests in the folder above show of its parts what these show as a whole."""

from pathlib import Path

import pytest

from tests.security.end_to_end.site import lines, site
from tests.support.cases import tests_in

__all__ = ["lines", "site"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in tests_in(Path(__file__).parent, items):
        item.add_marker("thorough")
