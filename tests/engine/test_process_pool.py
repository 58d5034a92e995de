"""Processes for calls, and who pays for those that calls have ended."""

import pytest

from ringfence.engine import fair_places
from ringfence.engine.plugins.errors import PluginTimeout
from ringfence.engine.plugins.process import CallPool
from ringfence.fencing.clock import Deadline


class Child:
    """Stands for a process."""

    alive = True
    up_to_date = True

    def close(self) -> None:
        self.alive = False


def start_ends(pool: CallPool, who: str, *, ends: bool, seconds: float = 0.05) -> None:
    """Make a call of this account, which ends its process or not."""
    token = fair_places.account.set(who)
    try:
        with pool.lease("show_records", Deadline.after(seconds)) as child:
            child.alive = not ends  # type: ignore[misc]
    finally:
        fair_places.account.reset(token)


def test_an_account_whose_calls_end_processes_waits_for_its_places() -> None:
    """Otherwise it makes the machine start processes as fast as it can."""
    started: list[Child] = []

    def start() -> Child:
        started.append(Child())
        return started[-1]

    pool = CallPool(start, 4, warm=2)  # type: ignore[arg-type]
    start_ends(pool, "attacker", ends=True)
    start_ends(pool, "attacker", ends=False)
    start_ends(pool, "attacker", ends=True)
    with pytest.raises(PluginTimeout, match="2 calls of your account"):
        start_ends(pool, "attacker", ends=True)
    before = len(started)
    start_ends(pool, "other", ends=False)
    start_ends(pool, "other", ends=False)
    assert len(started) == before + 1, "it keeps its process"
    start_ends(pool, "attacker", ends=False, seconds=30)
