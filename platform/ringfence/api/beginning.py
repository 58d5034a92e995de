"""Creating a connector that begins at certain source offsets (KIP-995), or at none of those that stand under its name.

It is created STOPPED, its offsets are moved, and only then it gets the state that was asked for: no task ever starts
without them.
"""

from collections.abc import Callable, Mapping

from ringfence import dispatch
from ringfence.access.principal import Principal
from ringfence.api import writing
from ringfence.dispatch import Refused
from ringfence.http.errors import ConnectError
from ringfence.requests import commands
from ringfence.requests.command_answers import Checked
from ringfence.requests.commands import Command, OffsetEntry

_COMMANDS: Mapping[str, Callable[[str], Command[None]]] = {"RUNNING": commands.Resume, "PAUSED": commands.Pause}


def create_at(name: str, config: Mapping[str, str], offsets: list[OffsetEntry], state: str, by: Principal) -> None:
    """`offsets`: as `writing.offsets_of` gives them. Raises ConnectError and Refused."""
    _create(name, config, state, by, commands.AlterOffsets(name, offsets))


def create_fresh(name: str, config: Mapping[str, str], state: str, by: Principal) -> None:
    """Every offset that is left from an older connector of this name is deleted first."""
    _create(name, config, state, by, commands.ResetOffsets(name))


def _create(name: str, config: Mapping[str, str], state: str, by: Principal, move: Command[Checked]) -> None:
    writing.create(name, config, "STOPPED", by)
    _move(name, move, by.name)
    if state in _COMMANDS:
        dispatch.command(_COMMANDS[state](name), user=by.name)


def _move(name: str, move: Command[Checked], user: str) -> None:
    """Where the offsets are refused, the connector goes again; where the outcome is unknown, it stays STOPPED."""
    try:
        dispatch.command(move, user=user)
    except Refused as refused:
        if refused.status >= 500 and refused.status != 503:
            text = f"Connector {name} is created and STOPPED; whether it has its offsets is unknown: {refused.message}"
            raise ConnectError(refused.status, text) from refused
        dispatch.command(commands.Delete(name), user=user)
        text = f"Connector {name} was not created: its offsets were refused. {refused.message}"
        raise ConnectError(refused.status, text) from refused
