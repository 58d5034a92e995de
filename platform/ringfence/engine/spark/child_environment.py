"""Removes the platform's settings from the environment of Spark and of processes that run plugin code.

These settings contain the passwords of the database, Redis and Kafka. A process inherits its parent's environment, so a
worker removes them after it has read them, and passes on by name what plugin code needs.
"""

from collections.abc import Mapping, MutableMapping
from typing import Final

from ringfence.connectors.config_providers import PROVIDERS
from ringfence.connectors.process_tree import MARK
from ringfence.connectors.worker_limits import ENVIRONMENT

_OURS: Final = ("RINGFENCE_", "CONNECT_")
_HANDED_ON: Final = frozenset({PROVIDERS, ENVIRONMENT, MARK})


def is_ours(name: str) -> bool:
    """Return whether the variable configures the platform, so that plugins must not see it."""
    return name.startswith(_OURS) and name not in _HANDED_ON


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not is_ours(name)}


def let_go(environment: MutableMapping[str, str]) -> None:
    """Remove them from this process's environment, so that processes which it starts later do not inherit them."""
    for name in [name for name in environment if is_ours(name)]:
        del environment[name]
