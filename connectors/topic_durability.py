"""How many replicas must have a record before it counts as written: `min.insync.replicas` of new topics."""

from collections.abc import Mapping
from typing import Final

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
_REPLICAS: Final = 3


def add_min_isr(config: Mapping[str, str], replicas: int, brokers_min_isr: int = 1) -> dict[str, str]:
    """The settings of a topic to create, with `min.insync.replicas=2` where it gets three replicas or more.

    With the brokers' default of 1 a commit is acknowledged while one broker alone has it, and is gone with that broker.
    A value that the user gave stays, and so do brokers that ask for more by themselves (`brokers_min_isr`).
    """
    if replicas < _REPLICAS or MIN_ISR in config or brokers_min_isr > 1:
        return dict(config)
    return {**config, MIN_ISR: "2"}
