"""Automatic restarts of failed tasks: when the next one is due, and when to give up. Pure.

The count stands in the placement record, so it survives a change of the leader: `restarts` in a row so far, and
`placed_ms`, from which a stable while is told. A restart by hand and a new generation begin at 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ringfence.connectors.api import ConfigException
from ringfence.connectors.delivery_settings import AUTO_RESTART_ENABLED, AUTO_RESTART_MAX_ATTEMPTS
from ringfence.fencing.topics.connector_state import Placement
from ringfence.fencing.topics.status import FAILED, MISCONFIGURED, TaskStatus

FIRST_S: Final = 10
LONGEST_S: Final = 600
STABLE_S: Final = 600
"""An attempt that lived this long begins the count again."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Whether, and how many times in a row."""

    enabled: bool = True
    max_attempts: int = 7

    @classmethod
    def of(cls, connector: Mapping[str, str], worker: Mapping[str, str]) -> "RestartPolicy":
        """The connector's settings, else the worker's of the same names. What cannot be read counts as the default:
        validation has refused it where anybody could still be told."""
        enabled = connector.get(AUTO_RESTART_ENABLED, worker.get(AUTO_RESTART_ENABLED, "true")).strip().lower()
        attempts = connector.get(AUTO_RESTART_MAX_ATTEMPTS, worker.get(AUTO_RESTART_MAX_ATTEMPTS, "")).strip()
        return cls(
            enabled != "false", int(attempts) if attempts.isascii() and attempts.isdigit() else cls().max_attempts
        )


def why_of(error: Exception) -> str:
    """FAILED, or MISCONFIGURED for what the plugin says its configuration is to blame for: that does not pass."""
    return MISCONFIGURED if isinstance(error, ConfigException) else FAILED


def pause_s(restarts: int) -> int:
    """The pause after so many restarts in a row: 10 s, doubled each time, at most ten minutes."""
    return min(LONGEST_S, FIRST_S << min(restarts, 16))


def in_a_row(placement: Placement, until_ms: int) -> int:
    """The restarts that still count at the given time: none after a stable while."""
    stable = placement.placed_ms and until_ms - placement.placed_ms >= STABLE_S * 1000
    return 0 if stable else placement.restarts


def next_restart_ms(policy: RestartPolicy, placement: Placement, failed: TaskStatus) -> int | None:
    """Wall clock of the next automatic restart; None where there will be none. `failed` speaks of this placement."""
    if not policy.enabled or failed.why != FAILED:
        return None
    restarts = in_a_row(placement, failed.since_ms)
    if restarts >= policy.max_attempts:
        return None
    return max(failed.since_ms, placement.placed_ms) + pause_s(restarts) * 1000
