"""The environment of processes that run plugin code, and of Spark's: none of the platform's own settings.

These hold passwords of the database, of Redis and of Kafka. A process inherits what its parent has, so a worker lets go
of them once it has read them, and hands on by name what plugin code needs.
"""

from collections.abc import Mapping, MutableMapping
from typing import Final

from ringfence.connectors.config_providers import PROVIDERS
from ringfence.connectors.worker_limits import ENVIRONMENT

_OURS: Final = ("RINGFENCE_", "CONNECT_")
_HANDED_ON: Final = frozenset({PROVIDERS, ENVIRONMENT})


def is_ours(name: str) -> bool:
    """Whether the variable configures the platform, and so is no business of a plugin's."""
    return name.startswith(_OURS) and name not in _HANDED_ON


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not is_ours(name)}


def let_go(environment: MutableMapping[str, str]) -> None:
    """Remove them from this process's environment: whatever it starts from now on has none."""
    for name in [name for name in environment if is_ours(name)]:
        del environment[name]
