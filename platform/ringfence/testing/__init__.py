"""For connector authors: unit tests in memory, and the compatibility suite with the real runtime and a broker."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
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
_MODULES: Final = {
    "checks": ("CHECKS", "SUITE_VERSION", "Check", "Trial", "survives_a_kill"),
    "in_memory": ("committed_after", "read"),
    "outcome": ("CheckFailed", "CheckSkipped"),
    "scenario": ("Scenario",),
}


def __getattr__(name: str) -> object:
    """Load what is used: the processes of attempts import this package, too, and need nothing of it."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
