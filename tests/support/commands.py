"""Commands that the product does not have, for the way there and back."""

from collections.abc import Mapping
from typing import Any

from ringfence.requests.request import Command


def command_named(kind: str, connector: str | None = None, body: Mapping[str, Any] | None = None) -> Command[Any]:
    members = {"name": kind, "on": connector, "body": lambda _self: dict(body or {})}
    made: Command[Any] = type("MadeUp", (Command,), members)()
    return made
