"""Four processes that share a run: one begins with the tests of a whole platform, the others with all the rest.

The rest begins with the platform of the security tests and that of the wheel, the next longest parts. Most tests wait
for a broker most of their time, so that four of them get on beside each other on two cores.
"""

import re
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_PLATFORMS = ("tests/e2e/", "tests/security/end_to_end/", "tests/wheel/")
_OF_THEIR_OWN = (
    "tests/e2e/browser/test_console_is_live.py",
    "tests/e2e/test_alert_rules.py",
    "tests/e2e/test_checker.py",
    "tests/e2e/test_default_slots.py",
    "tests/e2e/test_shared_tasks.py",
    "tests/e2e/test_telemetry.py",
)
"""In that folder, but without its platform, which would only wait for them: the others may take them."""
_BROKERS_FOR_FAILURES = "brokers for failures"
_THEIR_FIXTURES = re.compile(r"\b(proxied|trusting|harsh): ")


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of one file stay together, and so do all that share a platform or a broker, which is started once."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid, self.config.rootpath)

    def remove_node(self, node: WorkerController) -> str | None:
        """The test that crashed is not given to the next process, as xdist does, nor are files that are done.

        A process that is given nothing but those would wait for ever.
        """
        units = self.assigned_work.pop(node)
        crashed: str | None = next(
            (nodeid for unit in units.values() for nodeid, done in unit.items() if not done), None
        )
        if crashed is None:
            return None
        units[self._split_scope(crashed)][crashed] = True
        self.workqueue.update({scope: unit for scope, unit in units.items() if not all(unit.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def schedule(self) -> None:
        """A process keeps its last test until it knows what comes next: one that begins late needs more than one."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)


def scope_of(nodeid: str, root: Path) -> str:
    """What is run by one process."""
    together = (*_OF_THEIR_OWN, *_PLATFORMS)
    file = nodeid.partition("::")[0]
    by_file = _BROKERS_FOR_FAILURES if _needs_broker_for_failures(root / file) else file
    return next((part for part in together if nodeid.startswith(part)), by_file)


@cache
def _needs_broker_for_failures(file: Path) -> bool:
    return _THEIR_FIXTURES.search(file.read_text()) is not None


def platform_first(items: list[pytest.Item], root: Path) -> None:
    """The longest parts begin at once, or the other process would wait for them at the end."""
    first = (*_PLATFORMS, _BROKERS_FOR_FAILURES, *_OF_THEIR_OWN)

    def turn(item: pytest.Item) -> int:
        scope = scope_of(item.path.relative_to(root).as_posix(), root)
        return first.index(scope) if scope in first else len(first)

    items.sort(key=turn)
