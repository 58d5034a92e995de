"""Automatic restarts of failed tasks: when the next one is due, and when to give up. Pure.

The count is in the placement record, so it survives a change of leader: `restarts` in a row so far, and `placed_ms`,
which shows how long the attempt was stable. A manual restart and a new generation start at 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.api import ConfigException
from ringfence.connectors.error_settings import AUTO_RESTART_ENABLED, AUTO_RESTART_MAX_ATTEMPTS
from ringfence.fencing.topics.connector_state import Placement
from ringfence.fencing.topics.status import FAILED, MISCONFIGURED, TaskStatus

FIRST_S: Final = 10
LONGEST_S: Final = 600
STABLE_S: Final = 600
"""An attempt that ran this long resets the count."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Whether to restart, and how many times in a row."""

    enabled: bool = True
    max_attempts: int = 7

    @classmethod
    def of(cls, connector: Mapping[str, str], worker: Mapping[str, str]) -> "RestartPolicy":
        """Read the connector's settings, else the worker's with the same names. A value that cannot be read counts as
        the default: validation has already refused it.
        """
        setting = connector.get(AUTO_RESTART_ENABLED, worker.get(AUTO_RESTART_ENABLED, "true")).strip().lower()
        attempts = connector.get(AUTO_RESTART_MAX_ATTEMPTS, worker.get(AUTO_RESTART_MAX_ATTEMPTS, "")).strip()
        return cls(
            setting != "false", int(attempts) if attempts.isascii() and attempts.isdigit() else cls().max_attempts
        )


def why_of(error: Exception) -> str:
    """Return FAILED, or MISCONFIGURED if the plugin blames its configuration: a restart does not help then."""
    return MISCONFIGURED if isinstance(error, ConfigException) else FAILED


def pause_s(restarts: int) -> int:
    """Return the pause after this many restarts in a row: 10 s, doubled each time, at most ten minutes."""
    return min(LONGEST_S, FIRST_S << min(restarts, 16))


def in_a_row(placement: Placement, until_ms: int) -> int:
    """Return the restarts that still count at the given time: none after a stable run."""
    stable = placement.placed_ms and until_ms - placement.placed_ms >= STABLE_S * 1000
    return 0 if stable else placement.restarts


def next_restart_ms(policy: RestartPolicy, placement: Placement, status: TaskStatus) -> int | None:
    """Return the wall clock of the next automatic restart; None if there is none. status: of this placement."""
    if not policy.enabled or status.why != FAILED:
        return None
    restarts = in_a_row(placement, status.since_ms)
    if restarts >= policy.max_attempts:
        return None
    return max(status.since_ms, placement.placed_ms) + pause_s(restarts) * 1000
