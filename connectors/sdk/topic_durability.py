"""The number of replicas that must have a record before it is acknowledged: `min.insync.replicas` of new topics."""

from collections.abc import Mapping
from typing import Final

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
_REPLICAS: Final = 3


def add_min_isr(config: Mapping[str, str], replicas: int, brokers_min_isr: int = 1) -> dict[str, str]:
    """Return the settings of a topic to create, with `min.insync.replicas=2` if it has three replicas or more.

    With the brokers' default of 1, a commit is acknowledged while only one broker has it, and is lost with that broker.
    The user's own value takes precedence, and so do stricter brokers (`brokers_min_isr`).
    """
    if replicas < _REPLICAS or MIN_ISR in config or brokers_min_isr > 1:
        return dict(config)
    return {**config, MIN_ISR: "2"}
