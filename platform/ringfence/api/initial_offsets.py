"""Creates a connector with initial source offsets (KIP-995), or without those that are stored under its name.

It is created STOPPED, then its offsets are altered, and only then does it get the requested state: no task ever starts
without the offsets.
"""

from collections.abc import Callable, Mapping

from ringfence import dispatch
from ringfence.access.principal import Principal
from ringfence.api import connector_writes
from ringfence.dispatch import Refusal
from ringfence.engine.leader import commands
from ringfence.engine.leader.commands.offsets import OffsetCheck, OffsetEntry
from ringfence.http.errors import ConnectError
from ringfence.requests.request import Command

_COMMANDS: Mapping[str, Callable[[str], Command[None]]] = {"RUNNING": commands.Resume, "PAUSED": commands.Pause}


def create_at(name: str, config: Mapping[str, str], offsets: list[OffsetEntry], state: str, by: Principal) -> None:
    """offsets: as `writing.offsets_of` returns them. Raises `ConnectError` and `Refusal`."""
    _create(name, config, state, by, commands.AlterOffsets(name, offsets))


def create_fresh(name: str, config: Mapping[str, str], state: str, by: Principal) -> None:
    """Create a connector after deleting every offset of an earlier connector with this name."""
    _create(name, config, state, by, commands.ResetOffsets(name))


def _create(name: str, config: Mapping[str, str], state: str, by: Principal, move: Command[OffsetCheck]) -> None:
    connector_writes.create(name, config, "STOPPED", by)
    _move(name, move, by.name)
    if state in _COMMANDS:
        dispatch.command(_COMMANDS[state](name), user=by.name)


def _move(name: str, move: Command[OffsetCheck], user: str) -> None:
    """Alter the offsets. If they are refused, delete the connector again; if the outcome is unknown,
    leave it STOPPED.
    """
    try:
        dispatch.command(move, user=user)
    except Refusal as refused:
        if refused.status >= 500 and refused.status != 503:
            text = f"Connector {name} is created and STOPPED; whether it has its offsets is unknown: {refused.message}"
            raise ConnectError(refused.status, text) from refused
        dispatch.command(commands.Delete(name), user=user)
        text = f"Connector {name} was not created: its offsets were refused. {refused.message}"
        raise ConnectError(refused.status, text) from refused
