"""What happens when, drawn from a seed: the same seed gives the same run. Pure."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Act(StrEnum):
    """One blow, or one wish of a user."""

    TERMINATE = "SIGTERM to a worker"
    KILL = "SIGKILL to a worker"
    FREEZE = "SIGSTOP to a worker and all that it has started, SIGCONT later"
    KILL_TASK = "SIGKILL to the process of a task"
    BROKER = "restart of the broker"
    RECONFIGURE = "another number of tasks"
    STOP = "stop and resume"
    RESET = "stop, delete the offsets, resume"
    PAUSE = "pause and resume"
    RESTART = "restart of the connector and all tasks"


_WEIGHTS = {
    Act.TERMINATE: 2,
    Act.KILL: 3,
    Act.FREEZE: 4,
    Act.KILL_TASK: 3,
    Act.BROKER: 1,
    Act.RECONFIGURE: 5,
    Act.STOP: 1,
    Act.RESET: 2,
    Act.PAUSE: 2,
    Act.RESTART: 2,
}
TASKS = (3, 5, 1)
"""How many tasks there are, one after another."""


@dataclass(frozen=True, slots=True)
class Step:
    """`act` after `pause` seconds of peace.

    draw: 0 to 1, for whatever has to be chosen among what is there then; seconds: how long a freeze or a pause lasts.
    """

    pause: float
    act: Act
    draw: float
    seconds: float


def steps(seed: int) -> Iterator[Step]:
    """Without end. Every act comes once, in a random order, before any comes by its weight."""
    chance = random.Random(seed)
    first = list(Act)
    chance.shuffle(first)
    acts, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    while True:
        act = first.pop() if first else chance.choices(acts, weights)[0]
        yield Step(chance.uniform(0.2, 4.0), act, chance.random(), chance.uniform(2.0, 25.0))
