"""Two processes that share a run: one begins with the tests of a whole platform, the other with all the rest.

The rest begins with the wheel, the next longest part. Most tests wait for a broker most of their time, so that two of
them get on beside each other on two cores.
"""

from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

_PLATFORM = "tests/e2e/"
_LONG = "tests/wheel/"


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of one file stay together, and so do all that share the platform, which is started once."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """What is run by one process."""
    return _PLATFORM if nodeid.startswith(_PLATFORM) else nodeid.partition("::")[0]


def platform_first(items: list[pytest.Item], root: Path) -> None:
    """The longest parts begin at once, or the other process would wait for them at the end."""

    def turn(item: pytest.Item) -> int:
        scope = scope_of(item.path.relative_to(root).as_posix())
        return 0 if scope == _PLATFORM else 1 if scope.startswith(_LONG) else 2

    items.sort(key=turn)
