"""The commands, one class for each: its plan, its actions after the write, and what it waits for."""

from ringfence.engine.leader.commands import fencing, lifecycle, offsets
from ringfence.engine.leader.commands.command import LeaderSide, Outcome, command_of

__all__ = [
    "LeaderSide", "Outcome", "cluster", "command_of", "fencing", "lifecycle", "offsets", "restarting", "share_groups",
]  # fmt: skip
