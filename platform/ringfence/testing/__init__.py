"""For connector authors: unit tests in memory, and the compatibility suite with the real runtime and a broker."""

from ringfence.testing.checks import CHECKS, SUITE_VERSION, Check, Trial, survives_a_kill
from ringfence.testing.in_memory import committed_after, read
from ringfence.testing.outcome import CheckFailed, CheckSkipped
from ringfence.testing.scenario import Scenario

__all__ = [
    "CHECKS",
    "SUITE_VERSION",
    "Check",
    "CheckFailed",
    "CheckSkipped",
    "Scenario",
    "Trial",
    "committed_after",
    "read",
    "survives_a_kill",
]
