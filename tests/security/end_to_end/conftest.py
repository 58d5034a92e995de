"""One running platform for all of them. The tests in the folder above show of its parts what these show as a whole."""

from pathlib import Path

import pytest

from tests.security.end_to_end.site import lines, site

__all__ = ["lines", "site"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("thorough")
