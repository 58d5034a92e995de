"""The commands of web processes to the leader: one class for each, with all that it does."""

from collections.abc import Mapping
from typing import Final

from ringfence.engine.leader.commands.cluster import DrainWorker, HandOver, Ping, SetConnectorLogLevel, SetLogLevel
from ringfence.engine.leader.commands.command import LeaderCommand
from ringfence.engine.leader.commands.fencing import EndHanging, Fence, FenceId, FenceNow, RetryRound
from ringfence.engine.leader.commands.lifecycle import Delete, Pause, Restart, RestartTask, Resume, SendSignal, Stop
from ringfence.engine.leader.commands.offsets import ActOnShareGroup, AlterOffsets, ResetOffsets, ResetTopics, SweepNow
from ringfence.engine.leader.commands.saving import Configure, ConfigureTogether, Create
from ringfence.requests.request import MalformedRequest

__all__ = [
    "COMMANDS",
    "ActOnShareGroup",
    "AlterOffsets",
    "Configure",
    "ConfigureTogether",
    "Create",
    "Delete",
    "DrainWorker",
    "EndHanging",
    "Fence",
    "FenceId",
    "FenceNow",
    "HandOver",
    "Pause",
    "Ping",
    "ResetOffsets",
    "ResetTopics",
    "Restart",
    "RestartTask",
    "Resume",
    "RetryRound",
    "SendSignal",
    "SetConnectorLogLevel",
    "SetLogLevel",
    "Stop",
    "SweepNow",
    "parse",
]

COMMANDS: Final[tuple[type[LeaderCommand[object]], ...]] = (
    Ping, SetLogLevel, HandOver, DrainWorker, Create, Configure, ConfigureTogether, Pause, Resume, Stop, Delete,
    Restart, RestartTask, ResetTopics, SetConnectorLogLevel, AlterOffsets, ResetOffsets, Fence, FenceNow, FenceId,
    EndHanging, RetryRound, ActOnShareGroup, SweepNow, SendSignal,
)  # fmt: skip
_BY_NAME: Final = {kind.name: kind for kind in COMMANDS}


def parse(kind: str, connector: str | None, body: Mapping[str, object]) -> LeaderCommand[object]:
    """Parse a command as it was sent. Raises `MalformedRequest`."""
    if kind not in _BY_NAME:
        raise MalformedRequest(f"Unknown command {kind!r}")
    return _BY_NAME[kind].from_wire(body if connector is None else {**body, "connector": connector})
