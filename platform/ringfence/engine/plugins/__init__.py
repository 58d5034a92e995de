"""Plugin code runs beside the worker, never in it: in processes that may hang or crash without harm.

`PluginHost` is the only entry point. It uses two kinds of processes:

- *call processes* answer one short call at a time (validate, key infos, alter_offsets). A process that misses its
  deadline is killed. Several may work concurrently, so a hung plugin delays no other.
- the *instance process* contains the connector instances, which keep running and may request new tasks. It is one
  process: at 20 MB each, a hundred connectors would take gigabytes. Each connector has its own thread in it. An
  instance that hangs or crashes the process interrupts the others: they are started again, but the culprit is not.
"""

from typing import TYPE_CHECKING

from ringfence.engine.plugins.errors import (
    BadRequest,
    OffsetsRefused,
    PluginCrash,
    PluginError,
    PluginTimeout,
    UnknownPlugin,
)

if TYPE_CHECKING:
    from ringfence.engine.plugins.host import PluginHost

__all__ = [
    "BadRequest",
    "OffsetsRefused",
    "PluginCrash",
    "PluginError",
    "PluginHost",
    "PluginTimeout",
    "UnknownPlugin",
]


def __getattr__(name: str) -> object:
    """Load the host when it is used. The processes that it starts import this package, too, and need none of it."""
    if name == "PluginHost":
        from ringfence.engine.plugins.host import PluginHost

        return PluginHost
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
