"""Four processes that share a run: one begins with the tests of a whole platform, the others with all the rest.

The rest begins with the platform of the security tests and that of the wheel, the next longest parts. Most tests wait
for a broker most of their time, so that four of them get on beside each other on two cores.
"""

from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

_PLATFORMS = ("tests/e2e/", "tests/security/end_to_end/", "tests/wheel/")
_OF_THEIR_OWN = ("tests/e2e/test_checker.py",)
"""In that folder, but without its platform, which would only wait for them."""


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of one file stay together, and so do all that share a platform, which is started once."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """What is run by one process."""
    together = (*_OF_THEIR_OWN, *_PLATFORMS)
    return next((part for part in together if nodeid.startswith(part)), nodeid.partition("::")[0])


def platform_first(items: list[pytest.Item], root: Path) -> None:
    """The longest parts begin at once, or the other process would wait for them at the end."""

    def turn(item: pytest.Item) -> int:
        scope = scope_of(item.path.relative_to(root).as_posix())
        return _PLATFORMS.index(scope) if scope in _PLATFORMS else len(_PLATFORMS)

    items.sort(key=turn)
